// Slots at run time: an action starts only if there is a slot for its output.
#include <sluice/slots.hpp>

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/finding.hpp>
#include <sluice/replay/deterministic_executor.hpp>
#include <sluice/wait_graph.hpp>

#include "toy_run.hpp"

namespace sluice {
namespace {

using ::testing::HasSubstr;

Action act(const std::string& text) { return *parse_action(text); }

PlanConfig shape(int stages, int microbatches, std::optional<int> slots,
                 OrderMode order = OrderMode::fixed) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.slots = slots;
  config.order = order;
  return config;
}

std::string refusal(const PlanConfig& config) {
  try {
    derive_plan(config);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(Slots, AnOutputHasItsSlotUntilItsTakerStarts) {
  const Plan plan = derive_plan(shape(2, 4, 1));
  detail::Slots slots(plan);
  ASSERT_TRUE(slots.limited());
  EXPECT_EQ(slots.take(act("0F0")), 0);
  EXPECT_FALSE(slots.free_for(act("0F1")));
  EXPECT_TRUE(slots.free_for(act("0B0")));  // its output goes nowhere
  EXPECT_TRUE(slots.free_for(act("1B0")));  // the other direction has slots of its own
  EXPECT_EQ(slots.release(act("1F0"), 7), RankId(0));
  EXPECT_TRUE(slots.free_for(act("0F1")));
  EXPECT_EQ(slots.take(act("0F1")), 7);  // after what freed its slot
}

TEST(Slots, OnlyWhoMayHaveWaitedIsWoken) {
  const Plan plan = derive_plan(shape(2, 8, 2));
  detail::Slots slots(plan);
  slots.take(act("0F0"));
  EXPECT_EQ(slots.release(act("1F0"), 1), std::nullopt);
  slots.take(act("0F1"));
  slots.take(act("0F2"));
  EXPECT_EQ(slots.release(act("1F1"), 2), RankId(0));
}

TEST(Slots, AsManyAsThereAreMicrobatchesAreNoLimit) {
  EXPECT_FALSE(detail::Slots(derive_plan(shape(2, 4, 4))).limited());
  EXPECT_FALSE(detail::Slots(derive_plan(shape(2, 4, std::nullopt))).limited());
}

TEST(Slots, WithNoneARankStaysWithItsOutputUntilItIsTaken) {
  PlanConfig config = shape(2, 3, 0);
  config.schedule = ScheduleName::gpipe;
  const Plan plan = derive_plan(config);
  detail::Slots slots(plan);
  slots.take(act("0F0"));
  EXPECT_FALSE(slots.free_for(act("0B0")));
  EXPECT_EQ(slots.release(act("1F0"), 3), RankId(0));
  EXPECT_EQ(slots.take(act("0B0")), 3);
}

// S=2, M=2: stage 0 cannot hand over F1 while stage 1 cannot hand over B0.
TEST(Slots, RendezvousIsRefusedBeforeTheRunAndOneSlotIsEnough) {
  for (OrderMode order : {OrderMode::fixed, OrderMode::adaptive}) {
    EXPECT_THAT(refusal(shape(2, 2, 0, order)), HasSubstr("slots = 0 is too few for this order"));
    for (unsigned threads : {0U, 1U, 2U, 4U}) {
      test::ToyRun run;
      run.config = shape(2, 2, 1, order);
      const auto outcome = test::run_toy(run, nullptr, test::Machine{threads, 1});
      EXPECT_EQ(outcome.errors, std::vector<std::string>{""});
      EXPECT_EQ(outcome.weights, test::toy_plain_loop(2, 2, 1));
    }
  }
}

// In virtual time, with these costs, no two stages hand over to each other; on a slow day they would.
TEST(Slots, WhatOnlyLuckyTimingCouldRunIsRefused) {
  PlanConfig config = shape(3, 8, 0, OrderMode::adaptive);
  config.drain_depth = 1;
  EXPECT_THAT(refusal(config), HasSubstr("slots = 0"));
  config.drain_depth = 0;  // one microbatch at a time
  EXPECT_EQ(refusal(config), "");
}

TEST(Slots, AnEvaluationHonoursThem) {
  asio::thread_pool pool(2);
  PipelineOptions options;
  options.executors = strand_per_rank(pool.get_executor());
  std::vector<StepMetrics> seen;
  options.metrics = [&seen](const StepMetrics& metrics) { seen.push_back(metrics); };
  auto hooks = std::make_shared<test::ToyHooks>();
  hooks->yields = [](const Action& action) { return action.stage == StageId(2) ? 20 : 0; };
  Pipeline<test::Toy> pipeline(derive_plan(shape(3, 12, 1)), test::toy_factory(hooks), options);
  pipeline.async_evaluate(test::toy_batch(0, 12), {}, asio::use_future).get();
  ASSERT_EQ(seen.size(), 1U);
  for (int r : {1, 2}) EXPECT_EQ(seen[0].ranks[static_cast<std::size_t>(r)].peak_ready, 1) << r;
  pool.join();
}

TEST(Slots, TheWaitGraphSaysForWhoseSlotARankWaits) {
  const Plan plan = derive_plan(shape(2, 4, 1));
  // Stage 0 has run F0 and F1, the slot holds F1; stage 1 is in F0.
  std::vector<RankPosition> positions(2);
  positions[0].started = 1;
  positions[0].forwards = 1;
  positions[0].last = act("0F0");
  positions[1].rank = RankId(1);
  EXPECT_THAT(
      to_string(wait_graph(plan, positions, 4)),
      HasSubstr("waits for 0F1 (to find a slot for its output: rank 1 has not started 1F0)"));
  positions[0].started = 2;
  positions[0].forwards = 2;
  positions[0].last = act("0F1");
  positions[1].started = 1;
  positions[1].forwards = 1;
  positions[1].running = true;
  positions[1].last = act("1F0");
  EXPECT_THAT(to_string(wait_graph(plan, positions, 4)), HasSubstr("waits for 0B0"));
}

TEST(Slots, AnOrderThatNeedsMoreEndsAsStuckWithTheCycle) {
  // A plan whose slots were lowered behind the planner's back.
  PlanConfig config = shape(2, 4, std::nullopt);
  config.credits = std::vector<int>{4, 1};
  Plan plan = derive_plan(config);
  ASSERT_EQ(plan.slots_safe, 2);
  plan.slots = 1;
  replay::DeterministicContext context;
  PipelineOptions options;
  options.executors = replay::any_order(context);
  Pipeline<test::Toy> pipeline(plan, test::toy_factory(std::make_shared<test::ToyHooks>()),
                               options);
  std::string told;
  pipeline.async_step(test::toy_batch(0, 4), [&told](std::exception_ptr error, StepResult) {
    told = error ? text_of(error) : "no error";
  });
  context.run();
  EXPECT_THAT(told, HasSubstr("cycle: rank 0 -> rank 1 -> rank 0"));
  EXPECT_THAT(told, HasSubstr("to find a slot for its output"));
}

}  // namespace
}  // namespace sluice
