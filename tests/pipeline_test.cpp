#include <sluice/pipeline.hpp>

#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/replay/deterministic_executor.hpp>

#include "toy_model.hpp"

namespace sluice {
namespace {

using test::Toy;
using test::toy_batch;
using test::toy_factory;
using test::ToyHooks;
using test::ToyStage;

PlanConfig shape(int stages, int microbatches, std::optional<int> drain_depth = std::nullopt,
                 OrderMode order = OrderMode::fixed) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.drain_depth = drain_depth;
  config.order = order;
  return config;
}

std::vector<double> weights_of(Pipeline<Toy>& pipeline) {
  std::vector<double> weights;
  for (int s = 0; s < pipeline.plan().stages; ++s) {
    weights.push_back(static_cast<ToyStage&>(pipeline.stage(StageId(s))).weight());
  }
  return weights;
}

/// What a step on the deterministic executor completed with.
struct Outcome {
  std::exception_ptr error;
  StepResult result;
  bool completed = false;
};

Outcome run_step(replay::DeterministicContext& context, Pipeline<Toy>& pipeline, Batch<Toy> batch) {
  Outcome outcome;
  pipeline.async_step(std::move(batch), [&outcome](std::exception_ptr error, StepResult result) {
    outcome.error = error;
    outcome.result = result;
    outcome.completed = true;
  });
  context.run();
  return outcome;
}

std::string error_of(const Outcome& outcome) {
  return outcome.error ? text_of(outcome.error) : "no error";
}

TEST(Pipeline, TrainsLikeAPlainLoopToTheBitForEveryDrainDepthAndOrder) {
  for (int stages : {1, 2, 3, 4}) {
    const auto expected = test::toy_plain_loop(stages, 6, 3);
    for (int drain_depth = 0; drain_depth <= 6 + stages; ++drain_depth) {
      for (OrderMode order : {OrderMode::fixed, OrderMode::adaptive}) {
        replay::DeterministicContext context(replay::seeded_picks(7));
        PipelineOptions options;
        options.executors = single_thread(context.get_executor());
        Pipeline<Toy> pipeline(derive_plan(shape(stages, 6, drain_depth, order)),
                               toy_factory(std::make_shared<ToyHooks>()), options);
        for (int step = 0; step < 3; ++step) {
          const Outcome outcome = run_step(context, pipeline, toy_batch(step, 6));
          ASSERT_TRUE(outcome.completed);
          ASSERT_EQ(error_of(outcome), "no error");
        }
        ASSERT_EQ(weights_of(pipeline), expected) << fmt::format("S={} W={}", stages, drain_depth);
      }
    }
  }
}

TEST(Pipeline, TrainsTheSameOnAPoolOfAnySize) {
  for (unsigned threads : {1U, 2U, 4U}) {
    asio::thread_pool pool(threads);
    PipelineOptions options;
    options.executors = strand_per_rank(pool.get_executor());
    auto hooks = std::make_shared<ToyHooks>();
    hooks->yields = [](const Action& action) {
      return (action.mb.value * 7 + action.stage.value) % 3;
    };
    Pipeline<Toy> pipeline(derive_plan(shape(4, 16, 3, OrderMode::adaptive)), toy_factory(hooks),
                           options);
    for (int step = 0; step < 20; ++step) {
      pipeline.async_step(toy_batch(step, 16), asio::use_future).get();
    }
    EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(4, 16, 20));
    pool.join();
  }
}

TEST(Pipeline, LogsEveryEventInCausalOrder) {
  replay::DeterministicContext context(replay::seeded_picks(3));
  std::vector<Event> events;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  options.log = [&events](std::span<const Event> step) {
    events.insert(events.end(), step.begin(), step.end());
  };
  Pipeline<Toy> pipeline(derive_plan(shape(3, 5)), toy_factory(std::make_shared<ToyHooks>()),
                         options);
  ASSERT_EQ(error_of(run_step(context, pipeline, toy_batch(0, 5))), "no error");

  std::map<Action, int> exited;
  int actions = 0;
  for (const Event& event : events) {
    const Action& action = event.action;
    if (event.kind == Event::Kind::enter) {
      ++actions;
      if (action.phase == Phase::forward && action.stage.value > 0) {
        EXPECT_TRUE(exited.contains(Action(action.stage.previous(), Phase::forward, action.mb)));
      }
      if (action.phase == Phase::backward) {
        EXPECT_TRUE(exited.contains(Action(action.stage, Phase::forward, action.mb)));
        if (action.stage.value < 2) {
          EXPECT_TRUE(exited.contains(Action(action.stage.next(), Phase::backward, action.mb)));
        }
      }
    } else if (event.kind == Event::Kind::exit) {
      ++exited[action];
    }
  }
  EXPECT_EQ(actions, 2 * 3 * 5);
  EXPECT_EQ(exited.size(), 2U * 3 * 5);
}

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
  options.executors = single_thread(context.get_executor());
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
  options.executors = single_thread(context.get_executor());
  Pipeline<Toy> pipeline(derive_plan(shape(3, 8)), toy_factory(std::make_shared<ToyHooks>()),
                         options);
  EXPECT_THAT(error_of(run_step(context, pipeline, toy_batch(0, 8, 5))),
              ::testing::HasSubstr("short input: the batch source ended after 5 of 8"));
}

TEST(Pipeline, SamplesThatDoNotAddUpAreRefused) {
  replay::DeterministicContext context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  Pipeline<Toy> pipeline(derive_plan(shape(2, 4)), toy_factory(std::make_shared<ToyHooks>()),
                         options);
  auto batch = toy_batch(0, 4);
  batch.samples = 9;
  EXPECT_THAT(
      error_of(run_step(context, pipeline, batch)),
      ::testing::HasSubstr("the microbatches hold 8 samples, the batch was announced with 9"));
}

TEST(Pipeline, MemoryFollowsTheCreditsNeverM) {
  replay::DeterministicContext context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  Pipeline<Toy> pipeline(derive_plan(shape(4, 64)), toy_factory(std::make_shared<ToyHooks>()),
                         options);
  ASSERT_EQ(error_of(run_step(context, pipeline, toy_batch(0, 64))), "no error");
  for (int s = 0; s < 4; ++s) {
    auto& stage = static_cast<ToyStage&>(pipeline.stage(StageId(s)));
    EXPECT_EQ(stage.peak_held(), static_cast<std::size_t>(4 - s));
    EXPECT_EQ(stage.kept(), 0U);
  }
}

TEST(Pipeline, EvaluatesForwardOnlyInOrderAndLeavesTheWeights) {
  for (int stages : {1, 3}) {
    replay::DeterministicContext context(replay::seeded_picks(11));
    PipelineOptions options;
    options.executors = single_thread(context.get_executor());
    Pipeline<Toy> pipeline(derive_plan(shape(stages, 20)),
                           toy_factory(std::make_shared<ToyHooks>()), options);
    const auto before = weights_of(pipeline);
    std::vector<int> order;
    bool completed = false;
    pipeline.async_evaluate(
        toy_batch(0, 20), [&order](MicrobatchId mb, Toy) { order.push_back(mb.value); },
        [&completed](std::exception_ptr error, StepResult) {
          completed = true;
          EXPECT_EQ(error, nullptr);
        });
    context.run();
    EXPECT_TRUE(completed);
    EXPECT_EQ(order.size(), 20U);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    EXPECT_EQ(weights_of(pipeline), before);
  }
}

TEST(Pipeline, MMayDifferFromStepToStep) {
  replay::DeterministicContext context(replay::seeded_picks(5));
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  for (OrderMode order : {OrderMode::fixed, OrderMode::adaptive}) {
    Pipeline<Toy> pipeline(derive_plan(shape(4, 8, std::nullopt, order)),
                           toy_factory(std::make_shared<ToyHooks>()), options);
    for (int microbatches : {2, 1, 8, 5, 30, 3, 4, 6, 7, 9, 10, 11}) {
      Pipeline<Toy> same(derive_plan(shape(4, microbatches)),
                         toy_factory(std::make_shared<ToyHooks>()), options);
      auto batch = toy_batch(0, microbatches);
      batch.microbatches = microbatches;
      // One step away from the same weights.
      Pipeline<Toy> fresh(derive_plan(shape(4, 8, std::nullopt, order)),
                          toy_factory(std::make_shared<ToyHooks>()), options);
      ASSERT_EQ(error_of(run_step(context, fresh, batch)), "no error");
      EXPECT_EQ(weights_of(fresh), test::toy_plain_loop(4, microbatches, 1));
      ASSERT_EQ(error_of(run_step(context, pipeline, batch)), "no error");
    }
  }
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
    options.executors = single_thread(context.get_executor());
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

/// Pages of this process in memory.
std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Pipeline, TenThousandStepsKeepNothing) {
  asio::io_context context(1);
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  auto hooks = std::make_shared<ToyHooks>();
  Pipeline<Toy> pipeline(derive_plan(shape(2, 2)), toy_factory(hooks), options);
  std::int64_t warm = 0;
  for (int step = 0; step < 10'000; ++step) {
    pipeline.async_step(toy_batch(step, 2),
                        [](std::exception_ptr error, StepResult) { ASSERT_EQ(error, nullptr); });
    context.run();
    context.restart();
    if (step == 1'000) warm = resident_bytes();
  }
  const std::int64_t grown = resident_bytes() - warm;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps freed memory; grown by " << grown << " bytes";
#endif
  EXPECT_LE(grown, warm / 100);
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
    options.executors = single_thread(context.get_executor());
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
    options.executors = single_thread(context.get_executor());
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

TEST(Pipeline, AnOrderOfOnesOwnMayBeginWithAnyMicrobatch) {
  // Every microbatch by itself, in an order in which the last goes first: it enters last.
  for (const auto& turns : {std::vector{3, 0, 1, 2}, {3, 2, 1, 0}, {1, 3, 0, 2}}) {
    PlanConfig config = shape(2, 4);
    config.custom = Schedule{Order(2), one_stage_a_rank(2), {}};
    for (const int turn : turns) {
      for (StageId s(0); s.value < 2; s = s.next()) {
        config.custom->order[s.index()].emplace_back(s, Phase::forward, MicrobatchId(turn));
        config.custom->order[s.index()].emplace_back(s, Phase::backward, MicrobatchId(turn));
      }
    }
    replay::DeterministicContext context;
    PipelineOptions options;
    options.executors = single_thread(context.get_executor());
    Pipeline<Toy> pipeline(derive_plan(config), toy_factory(std::make_shared<ToyHooks>()), options);
    std::vector<std::string> outcomes;
    const auto tell = [&outcomes](std::exception_ptr error, StepResult) {
      outcomes.push_back(error ? text_of(error) : "fine");
    };
    pipeline.async_step(toy_batch(0, 4), tell);
    context.run();
    pipeline.async_evaluate(toy_batch(0, 4), {}, tell);
    context.run();
    EXPECT_THAT(outcomes, ::testing::ElementsAre("fine", "fine"));
    EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(2, 4, 1));
  }
}

TEST(Pipeline, OneStepAtATime) {
  replay::DeterministicContext context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  Pipeline<Toy> pipeline(derive_plan(shape(2, 4)), toy_factory(std::make_shared<ToyHooks>()),
                         options);
  std::vector<std::string> outcomes;
  for (int i = 0; i < 2; ++i) {
    pipeline.async_step(toy_batch(0, 4), [&outcomes](std::exception_ptr error, StepResult) {
      outcomes.push_back(error ? text_of(error) : "fine");
    });
  }
  context.run();
  EXPECT_THAT(outcomes, ::testing::UnorderedElementsAre(
                            "fine", ::testing::StartsWith("Pipeline: a step is running already")));
}

}  // namespace
}  // namespace sluice
