// Metrics to the nanosecond: pipelines in virtual time, whose actions take as long as they are told to.
#include <sluice/metrics.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/awaitable.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>

namespace sluice {
namespace {

using ::testing::ElementsAre;

/// What a step in virtual time is made of. Everything starts at 0 ns.
struct World {
  std::function<std::int64_t(const Action&)> takes;
  std::function<std::int64_t(MicrobatchId)> source_takes = [](MicrobatchId) { return 0; };
  std::function<bool(const Action&)> fails = [](const Action&) { return false; };
  replay::DeterministicContext context{};
};

class SleepingStage final : public Stage<int> {
 public:
  explicit SleepingStage(World& world) : world_(world) {}

  asio::awaitable<int> forward(ActionContext<int>& at, int input) override {
    co_await run(at.action);
    co_return input;
  }
  asio::awaitable<Gradients<int>> backward(ActionContext<int>& at, int gradient) override {
    co_await run(at.action);
    co_return Gradients<int>(gradient, 0);
  }
  asio::awaitable<int> input_gradient(ActionContext<int>& at, int gradient) override {
    co_await run(at.action);
    co_return gradient;
  }
  asio::awaitable<int> weight_gradient(ActionContext<int>& at) override {
    co_await run(at.action);
    co_return 0;
  }
  void accumulate(MicrobatchId, int) override {}
  void prepare_update(std::int64_t) override {}
  void commit() noexcept override {}
  void abort() noexcept override {}

 private:
  asio::awaitable<void> run(Action action) {
    co_await world_.context.async_sleep(world_.takes(action), asio::use_awaitable);
    if (world_.fails(action)) throw std::runtime_error("planted");
  }

  World& world_;
};

class SleepingSource final : public BatchSource<int> {
 public:
  explicit SleepingSource(World& world) : world_(world) {}
  asio::awaitable<MicrobatchData<int>> next(MicrobatchId mb) override {
    const std::int64_t span = world_.source_takes(mb);
    if (span > 0) co_await world_.context.async_sleep(span, asio::use_awaitable);
    co_return MicrobatchData<int>(0, 0, 1);
  }

 private:
  World& world_;
};

StepMetrics measure(World& world, const PlanConfig& config, bool training = true) {
  PipelineOptions options;
  options.executors = replay::any_order(world.context);
  options.clock = [&world] { return world.context.now_ns(); };
  StepMetrics seen;
  options.metrics = [&seen](const StepMetrics& metrics) { seen = metrics; };
  Pipeline<int> pipeline(
      derive_plan(config),
      [&world](const StageContext&) { return std::make_unique<SleepingStage>(world); }, options);
  Batch<int> batch(std::make_shared<SleepingSource>(world), config.microbatches);
  const auto ended = [](std::exception_ptr, StepResult) {};
  if (training) {
    pipeline.async_step(std::move(batch), ended);
  } else {
    pipeline.async_evaluate(std::move(batch), {}, ended);
  }
  world.context.run();
  return seen;
}

PlanConfig adaptive(int stages, int microbatches) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.order = OrderMode::adaptive;
  return config;
}

/// Of every rank.
template <class Member>
std::vector<std::int64_t> all(const StepMetrics& metrics, Member member) {
  std::vector<std::int64_t> values;
  for (const RankMetrics& rank : metrics.ranks) values.push_back(rank.*member);
  return values;
}

/// From the beginning to its last exit a rank is in an action or waits.
void expect_accounted_for(const StepMetrics& metrics) {
  for (const RankMetrics& rank : metrics.ranks) {
    EXPECT_EQ(rank.busy_ns + rank.input_wait_ns + rank.order_wait_ns, rank.last_exit_ns)
        << "rank " << rank.rank.value;
    EXPECT_LE(rank.longest_wait_ns, rank.input_wait_ns + rank.order_wait_ns);
  }
}

// A microbatch every 100 ns, a pipeline that needs 60 for one.
TEST(Metrics, ASlowSourceIsInputWaitOnEveryRank) {
  World world;
  world.takes = [](const Action& action) { return action.phase == Phase::forward ? 10 : 20; };
  world.source_takes = [](MicrobatchId) { return 100; };
  const StepMetrics metrics = measure(world, adaptive(2, 4));
  EXPECT_THAT(all(metrics, &RankMetrics::busy_ns), ElementsAre(120, 120));
  EXPECT_THAT(all(metrics, &RankMetrics::input_wait_ns), ElementsAre(460 - 120, 440 - 120));
  EXPECT_THAT(all(metrics, &RankMetrics::order_wait_ns), ElementsAre(0, 0));
  EXPECT_THAT(all(metrics, &RankMetrics::longest_wait_ns), ElementsAre(100, 110));
  EXPECT_EQ(metrics.makespan_ns, 360);
  EXPECT_DOUBLE_EQ(metrics.bubble_measured, 1 - 240 / 720.0);
  expect_accounted_for(metrics);
}

// The same source, but now the order wants F1 before B0: from 140, when B0 could run, to 200 it is the order
// that rank 0 waits for; and so on. It ends later, and the metrics say why.
TEST(Metrics, AnOrderThatWantsSomethingElseIsOrderWait) {
  World world;
  world.takes = [](const Action& action) { return action.phase == Phase::forward ? 10 : 20; };
  world.source_takes = [](MicrobatchId) { return 100; };
  PlanConfig config = adaptive(2, 2);
  config.order = OrderMode::fixed;
  const StepMetrics metrics = measure(world, config);
  EXPECT_THAT(all(metrics, &RankMetrics::input_wait_ns), ElementsAre(100 + 30 + 10, 110 + 70));
  EXPECT_THAT(all(metrics, &RankMetrics::order_wait_ns), ElementsAre(60, 0));
  EXPECT_THAT(all(metrics, &RankMetrics::longest_wait_ns), ElementsAre(100, 110));
  expect_accounted_for(metrics);
}

// Stage 1 may hold one microbatch. While stage 2 takes its time, the next one lies in front of stage 1.
TEST(Metrics, AStageOutOfCreditIsOrderWait) {
  World world;
  world.takes = [](const Action& action) { return action.stage == StageId(2) ? 100 : 10; };
  PlanConfig config = adaptive(3, 3);
  config.credits = {3, 1, 1};
  const StepMetrics metrics = measure(world, config);
  // Rank 1 has microbatch 1 from 20 on, microbatch 2 from 30 on, and runs each when the one before has gone
  // back: at 230 and 450. From 460 on it has nothing.
  EXPECT_THAT(all(metrics, &RankMetrics::busy_ns), ElementsAre(60, 60, 600));
  EXPECT_THAT(all(metrics, &RankMetrics::order_wait_ns), ElementsAre(0, 200 + 200, 0));
  EXPECT_THAT(all(metrics, &RankMetrics::input_wait_ns),
              ElementsAre(200 + 210 + 210, 10 + 200, 20 + 20 + 20));
  EXPECT_THAT(all(metrics, &RankMetrics::longest_wait_ns), ElementsAre(210, 200, 20));
  EXPECT_THAT(all(metrics, &RankMetrics::last_exit_ns), ElementsAre(680, 670, 660));
  EXPECT_EQ(metrics.ranks[1].peak_held, 1);
  EXPECT_EQ(metrics.ranks[1].peak_ready, 3);  // two forwards, and the backward that lets them go on
  expect_accounted_for(metrics);
}

// With W = 0 stage 0 holds one microbatch; the next one is fetched meanwhile and waits ready. It arrives 5 ns
// after stage 0 has fallen asleep: so long its wait is for an input, then for the credit.
TEST(Metrics, OneWaitMayBeForAnInputFirstAndForACreditThen) {
  World world;
  world.takes = [](const Action& action) {
    if (action.stage == StageId(0)) return 10;
    return action.mb == MicrobatchId(0) ? 100 : 40;
  };
  world.source_takes = [](MicrobatchId) { return 15; };
  PlanConfig config = adaptive(2, 3);
  config.drain_depth = 0;
  const StepMetrics metrics = measure(world, config);
  // F0 from 15 to 25, B0 from 225, F1 from 235, B1 from 325, F2 from 335, B2 from 425. Whoever leaves lets the
  // next one in, 15 ns later: microbatch 1 comes at 30, microbatch 2 at 250, and none is behind it.
  EXPECT_EQ(metrics.ranks[0].order_wait_ns, 195 + 75);
  EXPECT_EQ(metrics.ranks[0].input_wait_ns, 15 + 5 + 5 + 80);
  EXPECT_EQ(metrics.ranks[0].longest_wait_ns, 5 + 195);  // one, although an arrival woke it
  EXPECT_EQ(metrics.ranks[0].last_exit_ns, 435);
  EXPECT_EQ(metrics.ranks[1].order_wait_ns, 0);
  expect_accounted_for(metrics);
}

// Two and three stages a rank, of different lengths: what is a stage's own adds up to the rank's, and what
// is measured is what was planned.
TEST(Metrics, StagesOfARankAddUpToIt) {
  for (const ScheduleName schedule :
       {ScheduleName::interleaved, ScheduleName::looped_bfs, ScheduleName::zb_v}) {
    for (const int chunks : {2, 3}) {
      if (schedule == ScheduleName::zb_v && chunks != 2) continue;
      PlanConfig config;
      config.stages = 2 * chunks;
      config.microbatches = 5;
      config.schedule = schedule;
      config.chunks = chunks;
      for (int s = 0; s < config.stages; ++s) {
        config.costs.forward.push_back(Time::from_units(10 * (s + 1)));
        config.costs.backward.push_back(Time::from_units(20 * (s + 1)));
      }
      World world;
      world.takes = [](const Action& action) {
        const int halves = action.phase == Phase::backward ? 2 : 1;
        return 10 * halves * (action.stage.value + 1);
      };
      const Plan plan = derive_plan(config);
      const StepMetrics metrics = measure(world, config);
      SCOPED_TRACE(testing::Message() << to_string(schedule) << " chunks " << chunks);
      ASSERT_EQ(metrics.ranks.size(), 2U);
      for (const RankMetrics& rank : metrics.ranks) {
        ASSERT_EQ(static_cast<int>(rank.stages.size()), chunks);
        std::int64_t actions = 0;
        std::int64_t busy = 0;
        for (const StageMetrics& stage : rank.stages) {
          EXPECT_EQ(plan.rank_of[stage.stage.index()], rank.rank);
          EXPECT_EQ(stage.actions, schedule == ScheduleName::zb_v ? 5 * 3 : 5 * 2);
          EXPECT_EQ(stage.busy_ns, 5 * 30 * (stage.stage.value + 1));
          EXPECT_EQ(stage.peak_held, plan.timeline.peak_held[stage.stage.index()]);
          EXPECT_LE(stage.peak_held, rank.peak_held);
          actions += stage.actions;
          busy += stage.busy_ns;
        }
        EXPECT_EQ(actions, rank.actions);
        EXPECT_EQ(busy, rank.busy_ns);
      }
      EXPECT_DOUBLE_EQ(static_cast<double>(metrics.makespan_ns), plan.timeline.makespan.units());
      EXPECT_NEAR(metrics.bubble_measured, metrics.bubble_planned, 1e-12);
      EXPECT_GT(metrics.bubble_planned, 0);
      expect_accounted_for(metrics);
    }
  }
}

// A light stage behind a heavy one waits for one heavy action at a time, however many microbatches there are;
// in training it waits for a backward between two forwards, too.
TEST(Metrics, BehindAHeavyStageALightOneNeverWaitsForMoreThanItsNextInput) {
  World world;
  world.takes = [](const Action& action) { return action.stage == StageId(0) ? 1000 : 10; };
  for (const int microbatches : {1, 2, 3, 16, 200}) {
    const StepMetrics evaluated = measure(world, adaptive(2, microbatches), false);
    const RankMetrics& light = evaluated.ranks[1];
    EXPECT_EQ(light.longest_wait_ns, 1000) << microbatches;  // the first; then 990
    EXPECT_EQ(light.input_wait_ns, 1000 + 990 * (microbatches - 1)) << microbatches;
    EXPECT_EQ(light.order_wait_ns, 0) << microbatches;
  }
  for (const int microbatches : {3, 16, 200}) {
    const StepMetrics trained = measure(world, adaptive(2, microbatches));
    EXPECT_EQ(trained.ranks[0].busy_ns, 2000 * microbatches);
    EXPECT_EQ(trained.ranks[1].longest_wait_ns, 2000 - 20) << microbatches;
    EXPECT_EQ(trained.ranks[1].order_wait_ns, 0) << microbatches;
  }
}

// What a failed step has spent is counted up to its end, the wait that its end cut short included.
TEST(Metrics, AFailedStepIsCountedUpToItsEnd) {
  World world;
  world.takes = [](const Action& action) { return action.stage == StageId(1) ? 500 : 10; };
  world.fails = [](const Action& action) { return action.stage == StageId(1); };
  const StepMetrics metrics = measure(world, adaptive(2, 4));
  EXPECT_EQ(metrics.error, StepError::Kind::stage_failed);
  EXPECT_THAT(all(metrics, &RankMetrics::actions), ElementsAre(2, 1));
  EXPECT_THAT(all(metrics, &RankMetrics::busy_ns), ElementsAre(20, 500));
  EXPECT_THAT(all(metrics, &RankMetrics::input_wait_ns), ElementsAre(0, 10));
  EXPECT_THAT(all(metrics, &RankMetrics::order_wait_ns), ElementsAre(510 - 20, 0));
  EXPECT_THAT(all(metrics, &RankMetrics::longest_wait_ns), ElementsAre(490, 10));
  ASSERT_EQ(metrics.ranks[1].stages.size(), 1U);
  EXPECT_EQ(metrics.ranks[1].stages[0].busy_ns, 500);
  EXPECT_EQ(metrics.ranks[1].stages[0].peak_held, 1);
}

}  // namespace
}  // namespace sluice
