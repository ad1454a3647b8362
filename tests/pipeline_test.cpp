// What steps compute, log and hold, whatever the plan and the threads.
#include <algorithm>
#include <fstream>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/plain_stage.hpp>
#include <sluice/replay/deterministic_executor.hpp>

#include "toy_pipeline.hpp"
#include "toy_step.hpp"

namespace sluice {

/// A value that counts how many of its kind there are with something in them.
class Counted {
 public:
  Counted() = default;
  explicit Counted(double x) : x_(x), counts_(true) { most = std::max(most, ++live); }
  Counted(Counted&& other) noexcept : x_(other.x_), counts_(std::exchange(other.counts_, false)) {}
  Counted& operator=(Counted&& other) noexcept {
    std::swap(x_, other.x_);
    std::swap(counts_, other.counts_);
    return *this;
  }
  ~Counted() {
    if (counts_) --live;
  }
  double x() const { return x_; }

  static inline int live = 0;
  static inline int most = 0;

 private:
  double x_ = 0;
  bool counts_ = false;
};

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

TEST(Pipeline, TrainsLikeAPlainLoopToTheBitForEveryDrainDepthAndOrder) {
  for (int stages : {1, 2, 3, 4}) {
    const auto expected = test::toy_plain_loop(stages, 6, 3);
    for (int drain_depth = 0; drain_depth <= 6 + stages; ++drain_depth) {
      for (OrderMode order : {OrderMode::fixed, OrderMode::adaptive}) {
        replay::DeterministicContext context(replay::seeded_picks(7));
        PipelineOptions options;
        options.executors = replay::any_order(context);
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
  options.executors = replay::any_order(context);
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

TEST(Pipeline, MemoryFollowsTheCreditsNeverM) {
  replay::DeterministicContext context;
  PipelineOptions options;
  options.executors = replay::any_order(context);
  Pipeline<Toy> pipeline(derive_plan(shape(4, 64)), toy_factory(std::make_shared<ToyHooks>()),
                         options);
  ASSERT_EQ(error_of(run_step(context, pipeline, toy_batch(0, 64))), "no error");
  for (int s = 0; s < 4; ++s) {
    auto& stage = static_cast<ToyStage&>(pipeline.stage(StageId(s)));
    EXPECT_EQ(stage.peak_held(), static_cast<std::size_t>(4 - s));
    EXPECT_EQ(stage.kept(), 0U);
  }
}

/// Keeps every input until its backward.
struct Stashing {
  Counted forward(ActionContext<Counted>& at, Counted input) {
    Counted output(input.x());
    stash.emplace(at.action.mb, std::move(input));
    return output;
  }
  Gradients<Counted> backward(ActionContext<Counted>& at, Counted gradient) {
    stash.erase(at.action.mb);
    return {std::move(gradient), Counted(1)};
  }
  void abort() { stash.clear(); }

  std::map<MicrobatchId, Counted> stash;
};

TEST(Pipeline, AsManyValuesLiveAsTheCreditsAllowWhateverM) {
  constexpr int credits = 4 + 3 + 2 + 1;
  int most_of_64 = 0;
  for (const int microbatches : {64, 256}) {
    Counted::most = 0;
    {
      replay::DeterministicContext context;
      PipelineOptions options;
      options.executors = replay::any_order(context);
      Pipeline<Counted> pipeline(
          derive_plan(shape(4, microbatches)),
          [](const StageContext&) { return make_stage<Counted>(Stashing()); }, options);
      std::string outcome;
      const auto next = [](MicrobatchId) {
        return MicrobatchData<Counted>(Counted(1), Counted(1), 1);
      };
      pipeline.async_step(make_batch<Counted>(microbatches, next),
                          [&outcome](std::exception_ptr error, StepResult) {
                            outcome = error ? text_of(error) : "fine";
                          });
      context.run();
      EXPECT_EQ(outcome, "fine");
    }
    EXPECT_EQ(Counted::live, 0);
    EXPECT_GE(Counted::most, credits);
    // Besides those: targets, and what is on its way.
    EXPECT_LE(Counted::most, 2 * credits);
    if (microbatches == 64) most_of_64 = Counted::most;
    EXPECT_EQ(Counted::most, most_of_64);
  }
}

TEST(Pipeline, EvaluatesForwardOnlyInOrderAndLeavesTheWeights) {
  for (int stages : {1, 3}) {
    replay::DeterministicContext context(replay::seeded_picks(11));
    PipelineOptions options;
    options.executors = replay::any_order(context);
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

TEST(Pipeline, EvaluatesAnyNumberOfMicrobatchesWhateverTheScheduleTrains) {
  for (const ScheduleName schedule :
       {ScheduleName::dualpipe_v, ScheduleName::interleaved, ScheduleName::zb_v}) {
    for (const int microbatches : {1, 3, 21}) {
      replay::DeterministicContext context(replay::seeded_picks(3));
      PlanConfig config = shape(4, 8);
      config.schedule = schedule;
      PipelineOptions options;
      options.executors = replay::any_order(context);
      Pipeline<Toy> pipeline(derive_plan(config), toy_factory(std::make_shared<ToyHooks>()),
                             options);
      auto batch = toy_batch(0, microbatches);
      batch.microbatches = microbatches;
      std::vector<int> left;
      std::string ended = "never";
      pipeline.async_evaluate(
          std::move(batch), [&left](MicrobatchId mb, Toy) { left.push_back(mb.value); },
          [&ended](std::exception_ptr error, StepResult) {
            ended = error ? text_of(error) : "no error";
          });
      context.run();
      EXPECT_EQ(ended, "no error") << to_string(schedule) << " M=" << microbatches;
      EXPECT_EQ(left.size(), static_cast<std::size_t>(microbatches));
      EXPECT_TRUE(std::is_sorted(left.begin(), left.end()));
    }
  }
}

TEST(Pipeline, EvaluatesLikeAPlainLoopOnEverySchedule) {
  constexpr int stages = 4;
  constexpr int microbatches = 8;
  std::vector<double> expected;
  double expected_loss = 0;
  for (MicrobatchId mb(0); mb.value < microbatches; mb = mb.next()) {
    double x = test::ToySource::input(0, mb);
    for (StageId s(0); s.value < stages; s = s.next()) x = test::toy_weight(s) * x;
    const double distance = x - test::ToySource::target(0, mb);
    expected.push_back(x);
    expected_loss += distance * distance / 2 / microbatches;
  }
  for (const ScheduleName schedule :
       {ScheduleName::drain, ScheduleName::gpipe, ScheduleName::interleaved,
        ScheduleName::looped_bfs, ScheduleName::zb_h1, ScheduleName::zb_h2, ScheduleName::zb_v,
        ScheduleName::dualpipe_v}) {
    replay::DeterministicContext context(replay::seeded_picks(13));
    PipelineOptions options;
    options.executors = replay::any_order(context);
    PlanConfig config = shape(stages, microbatches);
    config.schedule = schedule;
    Pipeline<Toy> pipeline(derive_plan(config), toy_factory(std::make_shared<ToyHooks>()), options);
    const auto before = weights_of(pipeline);
    std::vector<double> outputs;
    std::string outcome;
    pipeline.async_evaluate(
        toy_batch(0, microbatches),
        [&outputs](MicrobatchId, Toy output) { outputs.push_back(output.x); },
        [&](std::exception_ptr error, StepResult result) {
          outcome = error ? text_of(error) : "fine";
          EXPECT_DOUBLE_EQ(result.loss, expected_loss) << to_string(schedule);
        });
    context.run();
    EXPECT_EQ(outcome, "fine") << to_string(schedule);
    EXPECT_EQ(outputs, expected) << to_string(schedule);
    EXPECT_EQ(weights_of(pipeline), before) << to_string(schedule);
  }
}

TEST(Pipeline, EvaluatesWithoutSlotsWhereARankHasSeveralStages) {
  replay::DeterministicContext context(replay::seeded_picks(3));
  PlanConfig config = shape(4, 1);
  config.schedule = ScheduleName::interleaved;
  config.slots = 0;
  PipelineOptions options;
  options.executors = replay::any_order(context);
  Pipeline<Toy> pipeline(derive_plan(config), toy_factory(std::make_shared<ToyHooks>()), options);
  auto batch = toy_batch(0, 6);
  batch.microbatches = 6;
  std::string ended = "never";
  pipeline.async_evaluate(std::move(batch), {}, [&ended](std::exception_ptr error, StepResult) {
    ended = error ? text_of(error) : "no error";
  });
  context.run();
  EXPECT_EQ(ended, "no error");
}

TEST(Pipeline, MMayDifferFromStepToStep) {
  replay::DeterministicContext context(replay::seeded_picks(5));
  PipelineOptions options;
  options.executors = replay::any_order(context);
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
  for (StageId s(0); s.value < 2; s = s.next()) {
    EXPECT_EQ(static_cast<ToyStage&>(pipeline.stage(s)).commits, 10'000);
  }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps freed memory; grown by " << grown << " bytes";
#endif
  EXPECT_LE(grown, warm / 100);
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
    options.executors = replay::any_order(context);
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
  options.executors = replay::any_order(context);
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
