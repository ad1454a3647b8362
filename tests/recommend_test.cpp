#include <sluice/recommend.hpp>

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

PlanConfig shape(int stages, int microbatches, double link = 0) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.costs.backward = {Time::from_units(2)};
  config.costs.link = {Time::from_units(link)};
  return config;
}

TEST(Recommend, OneForwardOneBackwardWhenLinksAreFree) {
  const auto result = recommend_drain_depth(shape(4, 32));
  EXPECT_EQ(result.drain_depth, 3);
  EXPECT_THAT(result.why, HasSubstr("1F1B"));
}

TEST(Recommend, ADepthThatBuysNoTimeIsSaidToTakeAsLong) {
  const auto result = recommend_drain_depth(shape(8, 4));
  EXPECT_EQ(result.drain_depth, 3);
  EXPECT_EQ(result.why, "makespan 33, the same as with 7, which is 1F1B; more buys less than 1%");
}

TEST(Recommend, TheKneeWhenAHopCosts) {
  const auto result = recommend_drain_depth(shape(4, 32, 1));
  EXPECT_EQ(result.drain_depth, 6);
  EXPECT_THAT(result.why, HasSubstr("111 instead of 157"));
}

TEST(Recommend, WhatTheMemoryAllows) {
  PlanConfig config = shape(4, 32, 1);
  config.memory.per_microbatch = {100};
  config.memory.fixed = {50};
  config.memory.cap = 599;  // five microbatches beside what is fixed
  const auto result = recommend_drain_depth(config);
  EXPECT_EQ(result.drain_depth, 4);
  EXPECT_THAT(result.why, AllOf(HasSubstr("135 instead of 157"), HasSubstr("cap = 599")));
}

TEST(Recommend, NothingFits) {
  PlanConfig config = shape(4, 32);
  config.memory.per_microbatch = {100, 100, 200, 100};
  config.memory.cap = 150;
  try {
    recommend_drain_depth(config);
    FAIL() << "it fits";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("stage 2"), HasSubstr("not even drain_depth = 0")));
  }
}

TEST(Recommend, ALargerDepthThatCostsTimeIsNotTaken) {
  // Unequal stages: the makespan is not monotone in W.
  PlanConfig config = shape(3, 7);
  for (int forward = 1; forward <= 3; ++forward) {
    config.costs.forward = {Time::from_units(forward), Time::from_units(1), Time::from_units(2)};
    config.costs.backward = {Time::from_units(1), Time::from_units(4), Time::from_units(forward)};
    const auto result = recommend_drain_depth(config);
    PlanConfig taken = config;
    taken.drain_depth = result.drain_depth;
    const double makespan = derive_plan(taken).timeline.makespan.units();
    for (int depth = 0; depth <= 8; ++depth) {
      taken.drain_depth = depth;
      EXPECT_LE(makespan, 1.01 * derive_plan(taken).timeline.makespan.units()) << depth;
    }
  }
}

TEST(Recommend, EveryDepthHasItsPrice) {
  PlanConfig config = shape(4, 32, 1);
  config.memory.per_microbatch = {100};
  const auto result = recommend_drain_depth(config);
  ASSERT_GT(result.prices.size(), 7U);
  EXPECT_EQ(result.prices[3].drain_depth, 3);
  EXPECT_EQ(result.prices[3].makespan.units(), 157);
  EXPECT_EQ(result.prices[6].makespan.units(), 111);
  EXPECT_EQ(result.prices[6].most_held, 7);
  EXPECT_EQ(result.prices[6].most_bytes, 700);
}

TEST(Recommend, ADepthThatGetsStuckIsNoChoice) {
  PlanConfig config = shape(2, 4);
  config.slots = 0;
  const auto result = recommend_drain_depth(config);
  config.drain_depth = result.drain_depth;
  config.order = OrderMode::adaptive;
  EXPECT_NO_THROW(derive_plan(config));
  EXPECT_THAT(result.why, HasSubstr("gets stuck with slots = 0"));
}

TEST(Recommend, ALargeShapeIsPricedAtFewDepths) {
  EXPECT_LT(recommend_drain_depth(shape(64, 16384)).prices.size(), 25U);
}

TEST(Recommend, TheScheduleDoesNotMatter) {
  PlanConfig config = shape(4, 32, 1);
  config.schedule = ScheduleName::gpipe;
  config.drain_depth = 17;
  EXPECT_EQ(recommend_drain_depth(config).drain_depth, 6);
}

}  // namespace
}  // namespace sluice
