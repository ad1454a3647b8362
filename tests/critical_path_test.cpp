#include <sluice/critical_path.hpp>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::ElementsAre;

PlanConfig shape(int stages, int microbatches, double link = 0) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.costs.backward = {Time::from_units(2)};
  config.costs.link = {Time::from_units(link)};
  return config;
}

std::vector<std::string> chain_of(const CriticalPath& path) {
  std::vector<std::string> chain;
  for (const TimedAction& timed : path.actions) chain.push_back(to_string(timed.action));
  return chain;
}

TEST(CriticalPath, OneMicrobatchIsOnItAllTheWay) {
  const auto path = critical_path(derive_plan(shape(2, 1)));
  EXPECT_THAT(chain_of(path), ElementsAre("0F0", "1F0", "1B0", "0B0"));
  EXPECT_THAT(path.of_stage, ElementsAre(Time::from_units(3), Time::from_units(3)));
  EXPECT_EQ(path.between, Time());
}

TEST(CriticalPath, LinksAreBetween) {
  const auto path = critical_path(derive_plan(shape(3, 1, 0.5)));
  EXPECT_EQ(path.between, Time::from_units(2));
  EXPECT_EQ(path.actions.size(), 6U);
}

// The vocabulary head makes the last stage a quarter slower than the others.
TEST(CriticalPath, TheSlowStageIsTheBottleneckAndTheOnlyPlaceWhereTimeCanBeBought) {
  PlanConfig config = shape(8, 32);
  config.schedule = ScheduleName::one_f_one_b;
  config.costs.forward.clear();
  config.costs.backward.clear();
  for (const double forward : {3.153, 3.150, 3.150, 3.150, 3.150, 3.150, 3.150, 3.901}) {
    config.costs.forward.push_back(Time::from_units(forward));
    config.costs.backward.push_back(Time::from_units(2 * forward));
  }
  const Plan plan = derive_plan(config);
  EXPECT_DOUBLE_EQ(plan.timeline.makespan.units(), 440.655);
  const auto path = critical_path(plan);
  EXPECT_EQ(path.bottleneck, StageId(7));
  EXPECT_DOUBLE_EQ(path.of_stage[7].units(), 32 * 3 * 3.901);
  EXPECT_NEAR(gain_of_one_percent(plan, StageId(7)).units(), 0.01 * 32 * 3 * 3.901, 1e-3);
  EXPECT_NEAR(gain_of_one_percent(plan, StageId(3)).units(), 0.01 * 3 * 3.150, 1e-3);
}

TEST(CriticalPath, AWaitForASlotLeadsToWhoFreedIt) {
  PlanConfig config = shape(2, 8);
  config.costs.forward = {Time::from_units(1), Time::from_units(5)};
  config.schedule = ScheduleName::gpipe;
  config.slots = 1;
  const Plan plan = derive_plan(config);
  const auto path = critical_path(plan);
  EXPECT_EQ(path.actions.front().start, Time());
  EXPECT_EQ(path.actions.back().end, plan.timeline.makespan);
  EXPECT_EQ(path.bottleneck, StageId(1));
}

TEST(CriticalPath, TwoThatOverlapWaitForBothInputs) {
  PlanConfig config = shape(8, 16);
  config.schedule = ScheduleName::dualpipe_v;
  const Plan plan = derive_plan(config);
  const auto path = critical_path(plan);
  EXPECT_EQ(path.actions.front().start, Time());
  EXPECT_EQ(path.between, Time());
}

}  // namespace
}  // namespace sluice
