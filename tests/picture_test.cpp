#include <sluice/picture.hpp>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/plan.hpp>

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;

Plan plan_of(int stages, int microbatches, double forward, double backward) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.costs.forward = {Time::from_units(forward)};
  config.costs.backward = {Time::from_units(backward)};
  return derive_plan(config);
}

std::string picture(const Plan& plan, int columns = 100) {
  const auto& actions = plan.timeline.actions;
  return draw(actions, plan.stages, fit(actions, plan.stages, columns));
}

TEST(Picture, OneForwardOneBackward) {
  EXPECT_EQ(picture(plan_of(4, 8, 1, 1)),
            "stage 0 |0  1  2  3  .........[0]4  [1]5  [2]6  [3]7  [4]...[5]...[6]...[7]\n"
            "stage 1 |...0  1  2  ......[0]3  [1]4  [2]5  [3]6  [4]7  [5]...[6]...[7]...\n"
            "stage 2 |......0  1  ...[0]2  [1]3  [2]4  [3]5  [4]6  [5]7  [6]...[7]......\n"
            "stage 3 |.........0  [0]1  [1]2  [2]3  [3]4  [4]5  [5]6  [6]7  [7].........\n");
}

TEST(Picture, ABackwardTakesItsTime) {
  EXPECT_EQ(picture(plan_of(4, 8, 1, 2)),
            "stage 0 |0 1 2 3 ............[0 ]4 [1 ]5 [2 ]6 [3 ]7 [4 ]..[5 ]..[6 ]..[7 ]\n"
            "stage 1 |..0 1 2 ........[0 ]3 [1 ]4 [2 ]5 [3 ]6 [4 ]7 [5 ]..[6 ]..[7 ]....\n"
            "stage 2 |....0 1 ....[0 ]2 [1 ]3 [2 ]4 [3 ]5 [4 ]6 [5 ]7 [6 ]..[7 ]........\n"
            "stage 3 |......0 [0 ]1 [1 ]2 [2 ]3 [3 ]4 [4 ]5 [5 ]6 [6 ]7 [7 ]............\n");
}

TEST(Picture, FewerMicrobatchesThanStages) {
  EXPECT_EQ(picture(plan_of(3, 1, 1, 2)),
            "stage 0 |0 ............[0 ]\n"
            "stage 1 |..0 ......[0 ]....\n"
            "stage 2 |....0 [0 ]........\n");
}

TEST(Picture, WhatDoesNotFitIsCutAndSaidSo) {
  const std::string text = picture(plan_of(4, 8, 1, 2), 60);
  EXPECT_EQ(text,
            "stage 0 |0 1 2 3 ............[0 ]4 [1 ]5 [2 ]6 [3 ]7 [4 ]..\n"
            "stage 1 |..0 1 2 ........[0 ]3 [1 ]4 [2 ]5 [3 ]6 [4 ]7 [5 ]\n"
            "stage 2 |....0 1 ....[0 ]2 [1 ]3 [2 ]4 [3 ]5 [4 ]6 [5 ]7 [6\n"
            "stage 3 |......0 [0 ]1 [1 ]2 [2 ]3 [3 ]4 [4 ]5 [5 ]6 [6 ]7 \n"
            "up to t = 25 of 33: 8 of 64 actions end later\n");
}

TEST(Picture, NoRowIsWiderThanAsked) {
  for (const int columns : {20, 33, 79, 100, 250}) {
    for (const double forward : {1.0, 0.37, 12.34567}) {
      std::istringstream lines(picture(plan_of(11, 130, forward, 2), columns));
      std::string line;
      for (int s = 0; s < 11; ++s) {
        ASSERT_TRUE(std::getline(lines, line));
        EXPECT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
      }
    }
  }
}

TEST(Picture, SplitBackwardHasItsOwnDress) {
  const Schedule schedule{
      {{*parse_action("0F0"), *parse_action("0I0"), *parse_action("0W0")}}, {RankId(0)}, {}};
  Costs costs;
  costs.backward = {Time::from_units(2)};
  const Timeline timeline = simulate_order(schedule, 1, costs);
  EXPECT_EQ(draw(timeline.actions, 1, fit(timeline.actions, 1)), "stage 0 |0  [0](0)\n");
}

TEST(Picture, AMeasuredRunStandsUnderItsPlan) {
  const Plan plan = plan_of(2, 2, 1, 2);
  Timeline measured;
  std::int64_t latest = 0;
  for (const TimedAction& timed : plan.timeline.actions) {
    // A millisecond a unit, with a little jitter.
    const std::int64_t enter = timed.start.millionths + 20'000;
    const std::int64_t exit = timed.end.millionths - 20'000;
    measured.actions.push_back(measured_action(timed.action, timed.rank, enter, exit));
    latest = std::max(latest, exit);
  }
  measured.makespan = Time::from_millionths(latest);
  const Scale scale = fit(plan.timeline.actions, 2);
  const std::string derived = draw(plan.timeline.actions, 2, scale);
  EXPECT_EQ(derived,
            "stage 0 |0 1 ....[0 ]..[1 ]\n"
            "stage 1 |..0 [0 ]1 [1 ]....\n");
  EXPECT_EQ(draw(measured.actions, 2, same_columns(scale, plan.timeline, measured)), derived);
}

TEST(Picture, ActionsTooShortForTheirNumberAreCounted) {
  std::vector<TimedAction> actions = plan_of(1, 8, 1, 2).timeline.actions;
  TimedAction& hiccup = actions[4];
  hiccup.end = hiccup.start + Time::from_units(0.05);
  const std::string text = draw(actions, 1, fit(actions, 1));
  EXPECT_THAT(text, HasSubstr("1 of 16 actions are too short"));
}

TEST(Picture, OfManyStagesTheFirstAndTheLastAreDrawn) {
  const std::string text = picture(plan_of(65, 1, 1, 1));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 64 + 1 + 1);  // and what ends later
  EXPECT_THAT(text, HasSubstr("\n... 1 more stages ...\nstage 33 |"));
  EXPECT_THAT(picture(plan_of(64, 1, 1, 1)), Not(HasSubstr("more stages")));
}

TEST(Picture, NothingToDraw) { EXPECT_EQ(draw({}, 1, fit({}, 1, 20)), "stage 0 |...........\n"); }

TEST(Picture, TheLifeOfAMicrobatch) {
  const Plan plan = plan_of(4, 8, 1, 2);
  EXPECT_EQ(life_of(plan.timeline.actions, MicrobatchId(5)), "F0 F1 F2 F3 B3 B2 B1 B0");
  EXPECT_EQ(life_of(plan.timeline.actions, MicrobatchId(8)), "");
}

}  // namespace
}  // namespace sluice
