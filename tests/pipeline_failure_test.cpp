// How steps end that go wrong: one error, nothing applied, nothing that hangs.
#include <atomic>
#include <future>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>

#include "toy_pipeline.hpp"
#include "toy_step.hpp"

namespace sluice {
namespace {

using test::error_of;
using test::Outcome;
using test::run_step;
using test::shape;
using test::Toy;
using test::toy_batch;
using test::toy_factory;
using test::ToyHooks;
using test::ToyStage;
using test::weights_of;

TEST(Pipeline, AThrowingStageEndsTheStepWithOneErrorAndChangesNoWeight) {
  for (unsigned threads : {1U, 2U, 4U}) {
    asio::thread_pool pool(threads);
    for (int run = 0; run < 100; ++run) {
      std::atomic<bool> armed{true};
      auto hooks = std::make_shared<ToyHooks>();
      hooks->on_enter = [&armed](const Action& action) {
        if (armed && action == Action(StageId(1), Phase::forward, MicrobatchId(3))) {
          throw std::domain_error("x");
        }
      };
      PipelineOptions options;
      options.executors = strand_per_rank(pool.get_executor());
      Pipeline<Toy> pipeline(derive_plan(shape(4, 8)), toy_factory(hooks), options);
      const auto before = weights_of(pipeline);
      try {
        pipeline.async_step(toy_batch(0, 8), asio::use_future).get();
        FAIL() << "the step should have failed";
      } catch (const StepError& error) {
        EXPECT_STREQ(error.what(), "stage 1, mb 3, F failed: x");
        EXPECT_EQ(error.action(), Action(StageId(1), Phase::forward, MicrobatchId(3)));
        EXPECT_THROW(std::rethrow_exception(error.cause()), std::domain_error);
      }
      EXPECT_EQ(weights_of(pipeline), before);
      for (int s = 0; s < 4; ++s) {
        EXPECT_EQ(static_cast<ToyStage&>(pipeline.stage(StageId(s))).kept(), 0U);
      }
      // The pipeline is ready for the next step.
      armed = false;
      pipeline.async_step(toy_batch(0, 8), asio::use_future).get();
      EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(4, 8, 1));
    }
    pool.join();
  }
}

TEST(Pipeline, AFailingUpdateOfOneStageLeavesAllStagesAsTheyWere) {
  replay::DeterministicContext context;
  PipelineOptions options;
  options.executors = replay::any_order(context);
  Pipeline<Toy> pipeline(derive_plan(shape(3, 4)), toy_factory(std::make_shared<ToyHooks>()),
                         options);
  const auto before = weights_of(pipeline);
  static_cast<ToyStage&>(pipeline.stage(StageId(2))).fail_prepare = true;
  EXPECT_THAT(error_of(run_step(context, pipeline, toy_batch(0, 4))),
              ::testing::StartsWith("stage 2: the update could not be prepared: no memory"));
  EXPECT_EQ(weights_of(pipeline), before);
}

TEST(Pipeline, ASourceThatEndsEarlyIsAShortInput) {
  replay::DeterministicContext context;
  PipelineOptions options;
  options.executors = replay::any_order(context);
  Pipeline<Toy> pipeline(derive_plan(shape(3, 8)), toy_factory(std::make_shared<ToyHooks>()),
                         options);
  const auto before = weights_of(pipeline);
  const auto expect_short = [&](const std::exception_ptr& thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
      FAIL() << "the input was short";
    } catch (const StepError& error) {
      EXPECT_THAT(error.what(),
                  ::testing::HasSubstr("short input: the batch source ended after 5 of 8"));
      EXPECT_EQ(error.kind(), StepError::Kind::source_failed);
      EXPECT_EQ(error.action() ? to_string(*error.action()) : "nothing", "0F5");
    }
    EXPECT_EQ(weights_of(pipeline), before);
    for (StageId s(0); s.value < 3; s = s.next()) {
      EXPECT_EQ(static_cast<ToyStage&>(pipeline.stage(s)).kept(), 0U);
    }
  };
  expect_short(run_step(context, pipeline, toy_batch(0, 8, 5)).error);

  std::exception_ptr of_evaluation;
  std::vector<int> outputs;
  pipeline.async_evaluate(
      toy_batch(0, 8, 5), [&outputs](MicrobatchId mb, Toy) { outputs.push_back(mb.value); },
      [&of_evaluation](std::exception_ptr error, StepResult) { of_evaluation = error; });
  context.run();
  expect_short(of_evaluation);
  EXPECT_LE(outputs.size(), 5U);  // those that were through before
  EXPECT_EQ(error_of(run_step(context, pipeline, toy_batch(0, 8))), "no error");
  EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(3, 8, 1));
}

TEST(Pipeline, SamplesThatDoNotAddUpAreRefused) {
  replay::DeterministicContext context;
  PipelineOptions options;
  options.executors = replay::any_order(context);
  Pipeline<Toy> pipeline(derive_plan(shape(2, 4)), toy_factory(std::make_shared<ToyHooks>()),
                         options);
  auto batch = toy_batch(0, 4);
  batch.samples = 9;
  EXPECT_THAT(
      error_of(run_step(context, pipeline, batch)),
      ::testing::HasSubstr("the microbatches hold 8 samples, the batch was announced with 9"));
}

TEST(Pipeline, AThousandCancellationsAndAThousandThrowsLeaveTheNextStepRight) {
  for (bool throws : {false, true}) {
    replay::DeterministicContext context(replay::seeded_picks(throws ? 1 : 2));
    KeyedRandom random(9, 0, "pipeline_test", 0, "when");
    auto hooks = std::make_shared<ToyHooks>();
    int until_throw = -1;
    hooks->yields = [](const Action& action) { return action.mb.value % 2; };
    hooks->on_enter = [&until_throw](const Action&) {
      if (until_throw-- == 0) throw std::runtime_error("planted");
    };
    PipelineOptions options;
    options.executors = replay::any_order(context);
    Pipeline<Toy> pipeline(derive_plan(shape(3, 6, std::nullopt, OrderMode::adaptive)),
                           toy_factory(hooks), options);
    int failed = 0;
    for (int run = 0; run < 1000; ++run) {
      Outcome outcome;
      const int after = static_cast<int>(random.below(36));
      if (throws) until_throw = after;
      if (!throws) {
        // A cancel somewhere in the middle, as a task among the others.
        asio::post(context.get_executor(), [&pipeline] { pipeline.cancel(); });
      }
      outcome = run_step(context, pipeline, toy_batch(0, 6));
      ASSERT_TRUE(outcome.completed);
      if (outcome.error) ++failed;
      until_throw = -1;
      for (int s = 0; s < 3; ++s) {
        ASSERT_EQ(static_cast<ToyStage&>(pipeline.stage(StageId(s))).kept(), 0U);
      }
    }
    EXPECT_GT(failed, 100);
    Pipeline<Toy> fresh(derive_plan(shape(3, 6)), toy_factory(std::make_shared<ToyHooks>()),
                        options);
    const int commits = static_cast<ToyStage&>(pipeline.stage(StageId(0))).commits;
    EXPECT_EQ(commits, 1000 - failed);
    for (int step = 0; step < commits; ++step) run_step(context, fresh, toy_batch(0, 6));
    EXPECT_EQ(weights_of(pipeline), weights_of(fresh));
  }
}

class NeverPolicy final : public Policy {
  class ForRank final : public RankPolicy {
    std::optional<std::size_t> choose(const ReadyView&) override { return std::nullopt; }
    void observe(const Event&) override {}
  };
  std::unique_ptr<RankPolicy> for_rank(const Plan&, RankId) override {
    return std::make_unique<ForRank>();
  }
};

TEST(Pipeline, APolicyThatWaitsForNothingIsReportedAsStuckOnAnyExecutor) {
  const std::string expected =
      "stuck: every rank waits and nothing more can arrive; check the order, the credits and the "
      "policy\n"
      "  rank 0: 0 actions run; waits for 0F0 (its input is here: the policy waits)\n"
      "  rank 1: 0 actions run; waits for 1F0 (rank 0 has not run 0F0)";
  PipelineOptions options;
  options.director = std::make_shared<LiveDirector>(std::make_shared<NeverPolicy>());
  {
    replay::DeterministicContext context;
    options.executors = replay::any_order(context);
    Pipeline<Toy> pipeline(derive_plan(shape(2, 4)), toy_factory(std::make_shared<ToyHooks>()),
                           options);
    EXPECT_EQ(error_of(run_step(context, pipeline, toy_batch(0, 4))), expected);
  }
  asio::thread_pool pool(2);
  options.executors = strand_per_rank(pool.get_executor());
  Pipeline<Toy> pipeline(derive_plan(shape(2, 4)), toy_factory(std::make_shared<ToyHooks>()),
                         options);
  try {
    pipeline.async_step(toy_batch(0, 4), asio::use_future).get();
    FAIL() << "the step should have been stuck";
  } catch (const StepError& error) {
    EXPECT_EQ(error.kind(), StepError::Kind::stuck);
    EXPECT_EQ(error.what(), expected);
  }
  pool.join();
}

/// A director that throws when it is called for the n-th time, whichever of its functions that is.
class FailingDirector final : public Director {
 public:
  explicit FailingDirector(int calls) : calls_(calls) {}
  std::unique_ptr<RankDirector> for_rank(const Plan& plan, RankId rank,
                                         std::int64_t step) override {
    return std::make_unique<Rank>(calls_, live_.for_rank(plan, rank, step));
  }
  void step_ended(const StepEnd&) override {}

 private:
  class Rank final : public RankDirector {
   public:
    Rank(int& calls, std::unique_ptr<RankDirector> inner)
        : calls_(calls), inner_(std::move(inner)) {}
    std::size_t choose(const ChoicePoint& point, std::span<const Option> options) override {
      count();
      return inner_->choose(point, options);
    }
    void observe(const Event& event) override {
      count();
      inner_->observe(event);
    }

   private:
    void count() {
      if (calls_-- == 0) throw std::runtime_error("planted in the director");
    }
    int& calls_;
    std::unique_ptr<RankDirector> inner_;
  };

  LiveDirector live_{std::make_shared<FixedOrder>()};
  int calls_;
};

TEST(Pipeline, ADirectorThatThrowsAnywhereEndsTheStepAndNothingHangs) {
  for (int calls = 0; calls < 200; ++calls) {
    replay::DeterministicContext context(replay::seeded_picks(4));
    PipelineOptions options;
    options.executors = replay::any_order(context);
    options.director = std::make_shared<FailingDirector>(calls);
    Pipeline<Toy> pipeline(derive_plan(shape(3, 4)), toy_factory(std::make_shared<ToyHooks>()),
                           options);
    const auto before = weights_of(pipeline);
    const Outcome outcome = run_step(context, pipeline, toy_batch(0, 4));
    ASSERT_TRUE(outcome.completed) << calls;
    if (!outcome.error) {
      EXPECT_GT(calls, 3 * 4 * 2 * 3);  // it was asked less often than that
      return;
    }
    if (error_of(outcome) == "the runtime failed: planted in the director") {
      EXPECT_EQ(weights_of(pipeline), before);
    } else {
      EXPECT_THAT(error_of(outcome),
                  ::testing::HasSubstr("the update was applied, but its director"));
      EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(3, 4, 1));
    }
  }
  FAIL() << "no step was ever left alone";
}

TEST(Pipeline, CancelEndsTheStepFromAnyThread) {
  asio::thread_pool pool(2);
  PipelineOptions options;
  options.executors = strand_per_rank(pool.get_executor());
  auto hooks = std::make_shared<ToyHooks>();
  hooks->yields = [](const Action&) { return 50; };
  Pipeline<Toy> pipeline(derive_plan(shape(4, 64)), toy_factory(hooks), options);
  const auto before = weights_of(pipeline);
  auto step = pipeline.async_step(toy_batch(0, 64), asio::use_future);
  std::thread canceller([&pipeline] { pipeline.cancel(); });
  canceller.join();
  try {
    step.get();
  } catch (const StepError& error) {
    EXPECT_EQ(error.kind(), StepError::Kind::cancelled);
    EXPECT_EQ(weights_of(pipeline), before);
  }
  pool.join();
}

}  // namespace
}  // namespace sluice
