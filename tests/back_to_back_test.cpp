#include <sluice/back_to_back.hpp>

#include <gtest/gtest.h>

namespace sluice {
namespace {

double per_step(ScheduleName schedule, int stages) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = 8;
  config.schedule = schedule;
  config.costs.backward = {Time::from_units(2)};
  return step_back_to_back(derive_plan(config)).units();
}

TEST(BackToBack, TimeInsideARanksOwnSpanIsAllThatCounts) {
  // Alone, zb-h1 and zb-h2 both take 27 for 24 of work.
  EXPECT_EQ(per_step(ScheduleName::zb_h1, 4), 27);
  EXPECT_EQ(per_step(ScheduleName::zb_h2, 4), 24);
  EXPECT_EQ(per_step(ScheduleName::one_f_one_b, 4), 33);
  EXPECT_EQ(per_step(ScheduleName::zb_v, 8), 48);
  EXPECT_EQ(per_step(ScheduleName::dualpipe_v, 8), 54);
}

TEST(BackToBack, UnevenMicrobatchesComeAgainInEveryStep) {
  PlanConfig config;
  config.stages = 1;
  config.microbatches = 3;
  config.costs.sizes = {3, 3, 2};
  EXPECT_EQ(step_back_to_back(derive_plan(config)).units(), 16);
}

}  // namespace
}  // namespace sluice
