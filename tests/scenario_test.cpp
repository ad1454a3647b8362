// Scenarios: what is drawn of them, what their expansion says, and where faults strike.
#include <array>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/scenario.hpp>
#include <sluice/replay/token.hpp>

namespace sluice::replay {
namespace {

TEST(Scenario, DrawsOfEverything) {
  const std::array kinds{Fault::Kind::fails, Fault::Kind::drop, Fault::Kind::cancel};
  std::set<std::string> schedules;
  std::set<int> chunks;
  std::set<int> slots;
  int adaptive = 0;
  int links = 0;
  int faults = 0;
  std::size_t longest = 0;
  for (std::int64_t run = 0; run < 500; ++run) {
    const Scenario scenario = draw_scenario(3, run, kinds);
    EXPECT_EQ(to_string(scenario), to_string(draw_scenario(3, run, kinds)));
    const Plan plan = derive_plan(scenario.config);
    schedules.emplace(to_string(plan.schedule));
    chunks.insert(plan.stages / plan.ranks);
    slots.insert(plan.slots.value_or(-1));
    adaptive += plan.order_mode == OrderMode::adaptive ? 1 : 0;
    links += scenario.config.costs.link.empty() ? 0 : 1;
    faults += static_cast<int>(scenario.faults.size());
    for (const Fault& fault : scenario.faults) EXPECT_TRUE(can_strike(fault, plan));
    Token token;
    token.scenario = scenario;
    EXPECT_EQ(to_string(parse_token(to_string(token)).scenario), to_string(scenario));
    longest = std::max(longest, expansion_of(scenario).size());
  }
  EXPECT_EQ(schedules.size(), 10);
  EXPECT_EQ(chunks, (std::set<int>{1, 2, 3}));
  EXPECT_GE(slots.size(), 5);
  EXPECT_GT(adaptive, 10);
  EXPECT_GT(links, 100);
  EXPECT_GT(faults, 200);
  EXPECT_LT(faults, 450);
}

TEST(Scenario, TheExpansionNamesWhatWasLeftToItsDefault) {
  Scenario scenario;
  scenario.config.stages = 4;
  scenario.config.microbatches = 6;
  scenario.config.schedule = ScheduleName::interleaved;
  scenario.faults = {{Fault::Kind::drop, *parse_action("2F1")}};
  EXPECT_EQ(expansion_of(scenario),
            "interleaved, fixed order, S=4 on 2 ranks (V=2), M=6, W=3, credits 4,3,2,1, gate 1, "
            "slots never blocking, forward 1,1,1,1, backward 1,1,1,1, input gradient "
            "0.5,0.5,0.5,0.5, weight gradient 0.5,0.5,0.5,0.5, link 0,0,0, overhead 0, stages do "
            "not suspend, drop at 2F1");
}

// Where a hand-over cannot be, there is none to lose; a weight gradient has no output to hold a NaN.
TEST(Scenario, FaultsStrikeWhereTheyMeanSomething) {
  PlanConfig config;
  config.stages = 1;
  config.microbatches = 2;
  const Plan alone = derive_plan(config);
  EXPECT_FALSE(can_strike(Fault::Kind::drop, alone));
  EXPECT_TRUE(can_strike(Fault::Kind::cancel, alone));
  config.stages = 2;
  config.schedule = ScheduleName::zb_h1;
  const Plan plan = derive_plan(config);
  const auto fault = [](Fault::Kind kind, const char* at) {
    return Fault{kind, *parse_action(at)};
  };
  EXPECT_TRUE(can_strike(fault(Fault::Kind::drop, "1F0"), plan));
  EXPECT_TRUE(can_strike(fault(Fault::Kind::delay, "0I1"), plan));
  EXPECT_FALSE(can_strike(fault(Fault::Kind::drop, "0F0"), plan));
  EXPECT_FALSE(can_strike(fault(Fault::Kind::duplicate, "1I0"), plan));
  EXPECT_FALSE(can_strike(fault(Fault::Kind::nan, "1W0"), plan));
  EXPECT_FALSE(can_strike(fault(Fault::Kind::fails, "1B0"), plan));  // it is split
  EXPECT_FALSE(can_strike(fault(Fault::Kind::fails, "0F2"), plan));
}

}  // namespace
}  // namespace sluice::replay
