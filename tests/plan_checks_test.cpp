// What a plan warns of and what it refuses: memory, depth, numbers and lists, each with the change that mends it.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_checking.hpp"

namespace sluice {
namespace {

using test::deep;
using test::error;
using test::errors;
using test::rules;
using test::scheduled;
using test::shape;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Plan, PeakBytesFollowWhatIsHeld) {
  PlanConfig config = shape(4, 8);
  config.memory.per_microbatch = {10, 20, 30, 40};
  config.memory.fixed = {1};
  EXPECT_THAT(derive_plan(config).peak_bytes, ElementsAre(41, 61, 61, 41));
  config = scheduled(ScheduleName::interleaved, shape(8, 8));
  config.memory.per_microbatch = {1};
  config.memory.fixed = {100};
  EXPECT_THAT(derive_plan(config).peak_bytes, ElementsAre(211, 209, 207, 205));
}

TEST(Plan, APeakOverTheCapIsRefusedWithTheDepthThatFits) {
  PlanConfig config = deep(6, shape(4, 8));
  config.memory.per_microbatch = {10, 10, 20, 10};
  config.memory.cap = 65;
  EXPECT_THAT(error(config), AllOf(HasSubstr("cap = 65"), HasSubstr("stage 2 needs 100 bytes"),
                                   HasSubstr("lower drain_depth = 6 to 4")));
  EXPECT_THAT(errors(deep(4, config)), testing::IsEmpty());
  config.memory.cap = 10;
  EXPECT_THAT(error(config), HasSubstr("not even drain_depth = 0"));
  EXPECT_THAT(error(scheduled(ScheduleName::gpipe,
                              [] {
                                PlanConfig gpipe = shape(4, 8);
                                gpipe.memory.per_microbatch = {10};
                                gpipe.memory.cap = 79;
                                return gpipe;
                              }())),
              AllOf(HasSubstr("stage 0 needs 80 bytes"), HasSubstr("schedule")));
}

TEST(Plan, AScheduleOfOnesOwnWithoutItsListIsRefused) {
  EXPECT_THAT(error(scheduled(ScheduleName::custom, shape(5, 1))),
              AllOf(HasSubstr("schedule = custom"), HasSubstr("give its list")));
}

TEST(Plan, BytesThatDoNotFitAreRefused) {
  PlanConfig config = shape(4, 8);
  config.memory.per_microbatch = {1, 2, 3};
  EXPECT_THAT(error(config), HasSubstr("per_microbatch"));
  config.memory.per_microbatch = {-1};
  EXPECT_THAT(error(config), HasSubstr("negative"));
  config.memory.per_microbatch = {std::numeric_limits<std::int64_t>::max()};
  EXPECT_THAT(error(config), HasSubstr("9e18"));
  config.memory.per_microbatch = {};
  config.memory.cap = -1;
  EXPECT_THAT(error(config), HasSubstr("cap = -1"));
}

// Findings about W.

TEST(Plan, TooShallowIsAWarningWithTheFactor) {
  const Plan plan = derive_plan(deep(2, shape(4, 8)));
  EXPECT_EQ(plan.timeline.makespan.units(), 39);
  EXPECT_THAT(plan.credits, ElementsAre(3, 3, 2, 1));
  ASSERT_THAT(rules(plan.findings), ElementsAre("drain-depth"));
  EXPECT_EQ(plan.findings[0].severity, Severity::warning);
  EXPECT_EQ(plan.findings[0].key, "drain_depth");
  EXPECT_THAT(plan.findings[0].message, AllOf(HasSubstr("drain_depth = 2"), HasSubstr("0.75"),
                                              HasSubstr("39 instead of 33")));
}

TEST(Plan, ZeroIsADepth) {
  const Plan plan = derive_plan(deep(0, shape(4, 8)));
  EXPECT_EQ(plan.timeline.makespan.units(), 96);
  EXPECT_EQ(plan.entered_at_first_backward, 1);
}

TEST(Plan, OneMicrobatchAtATimeNeedsNoSlots) {
  PlanConfig config = deep(0, shape(4, 8));
  config.slots = 0;
  EXPECT_EQ(derive_plan(config).timeline.makespan.units(), 96);
}

TEST(Plan, TooShallowDoesNotMatterWhenThereIsNothingMoreToEnter) {
  EXPECT_THAT(rules(derive_plan(deep(1, shape(4, 2))).findings), ElementsAre("fill"));
}

TEST(Plan, TooDeepIsMemoryForNothingWhenLinksAreFree) {
  const Plan plan = derive_plan(deep(6, shape(4, 8)));
  EXPECT_EQ(plan.timeline.makespan.units(), 33);
  ASSERT_THAT(rules(plan.findings), ElementsAre("drain-depth"));
  EXPECT_THAT(plan.findings[0].message, AllOf(HasSubstr("drain_depth = 6"), HasSubstr("memory"),
                                              HasSubstr("7 microbatches instead of 4")));
}

TEST(Plan, DeeperThanOneForwardOneBackwardIsFineWhenItHidesALink) {
  PlanConfig config = deep(6, shape(4, 32));
  config.costs.link = {Time::from_units(1)};
  EXPECT_THAT(derive_plan(config).findings, testing::IsEmpty());
}

TEST(Plan, ADepthThatContradictsTheScheduleIsRefusedWithTheRightOne) {
  EXPECT_THAT(error(deep(5, scheduled(ScheduleName::one_f_one_b, shape(4, 8)))),
              AllOf(HasSubstr("drain_depth = 5"), HasSubstr("3"), HasSubstr("1f1b")));
  EXPECT_THAT(error(deep(3, scheduled(ScheduleName::gpipe, shape(4, 8)))), HasSubstr("7"));
  EXPECT_THAT(error(deep(3, scheduled(ScheduleName::eager_1f1b, shape(4, 8)))), HasSubstr("6"));
  EXPECT_THAT(errors(deep(3, scheduled(ScheduleName::one_f_one_b, shape(4, 2)))),
              testing::IsEmpty());
  EXPECT_THAT(errors(deep(10, scheduled(ScheduleName::gpipe, shape(4, 8)))), testing::IsEmpty());
}

// What cannot be run.

TEST(Plan, MicrobatchesHaveNoDefault) {
  PlanConfig config;
  config.stages = 4;
  EXPECT_THAT(error(config), AllOf(HasSubstr("microbatches = 0"), HasSubstr("no default")));
}

TEST(Plan, NumbersOutOfRangeAreRefused) {
  const int huge = std::numeric_limits<int>::max();
  EXPECT_THAT(error(shape(0, 8)), HasSubstr("stages = 0"));
  EXPECT_THAT(error(shape(-1, 8)), HasSubstr("stages = -1"));
  EXPECT_THAT(error(shape(4, -8)), HasSubstr("microbatches = -8"));
  EXPECT_THAT(error(shape(huge, 8)), HasSubstr("stages = 2147483647"));
  EXPECT_THAT(error(shape(4, huge)), HasSubstr("at most"));
  EXPECT_THAT(error(shape(1 << 20, huge)), HasSubstr("at most"));
  EXPECT_THAT(error(deep(-1, shape(4, 8))), HasSubstr("drain_depth = -1"));
  EXPECT_THAT(error(deep(huge, shape(4, 8))), HasSubstr("drain_depth = 2147483647"));
  EXPECT_EQ(errors(shape(-1, -1)).size(), 2U);
}

TEST(Plan, CreditsThatDoNotFitAreRefused) {
  PlanConfig config = shape(4, 8);
  config.credits = std::vector<int>{4, 3, 2};
  EXPECT_THAT(error(config), AllOf(HasSubstr("[4, 3, 2]"), HasSubstr("4 stages")));
  config.credits = std::vector<int>{4, 0, 2, 1};
  EXPECT_THAT(error(config), AllOf(HasSubstr("credits = 0"), HasSubstr("stage 1")));
  config.credits = std::vector<int>{4, 3, 2, 1};
  EXPECT_THAT(error(deep(3, config)), HasSubstr("drain_depth"));
  EXPECT_THAT(error(scheduled(ScheduleName::gpipe, config)), HasSubstr("gpipe"));
}

TEST(Plan, CostsThatDoNotFitAreRefused) {
  PlanConfig config = shape(4, 8);
  config.costs.forward.assign(3, Time::from_units(1));
  EXPECT_THAT(error(config), AllOf(HasSubstr("forward"), HasSubstr("list of 3")));
  config = shape(4, 8);
  config.costs.link.assign(4, Time::from_units(1));
  EXPECT_THAT(error(config), AllOf(HasSubstr("link"), HasSubstr("3 edges")));
  config = shape(4, 8, 1, -2);
  EXPECT_THAT(error(config), AllOf(HasSubstr("backward = -2"), HasSubstr("negative")));
  config = shape(4, 8);
  config.costs.overhead = Time::from_units(-0.5);
  EXPECT_THAT(error(config), HasSubstr("overhead = -0.5"));
  EXPECT_THAT(error(shape(4, 8, 8e12, 8e12)), HasSubstr("larger unit"));
  config = shape(4, 3);
  config.costs.sizes = {3, 3};
  EXPECT_THAT(error(config), HasSubstr("3 microbatches"));
  config.costs.sizes = {3, 0, 3};
  EXPECT_THAT(error(config), HasSubstr("microbatch 1"));
  config = shape(4, 8);
  config.slots = -1;
  EXPECT_THAT(error(config), HasSubstr("slots = -1"));
}

TEST(Plan, FreeActionsAreNoDivisionByZero) {
  const Plan plan = derive_plan(shape(3, 4, 0, 0));
  EXPECT_EQ(plan.timeline.makespan, Time());
  EXPECT_EQ(plan.bubble_of_makespan, 0);
}

}  // namespace
}  // namespace sluice
