// Tokens: what they hold, that they stay short, and that a changed letter is noticed.
#include <array>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/scenario.hpp>

namespace sluice::replay {
namespace {

using testing::HasSubstr;

Token token_of(int stages, int microbatches) {
  Token token;
  token.scenario.config.stages = stages;
  token.scenario.config.microbatches = microbatches;
  return token;
}

TEST(Token, HoldsEverythingThatTheRunDependsOn) {
  Token token = token_of(4, 8);
  token.world = World::model;
  token.own = true;
  PlanConfig& config = token.scenario.config;
  config.credits = {4, 3, 2, 1};
  config.slots = 2;
  config.order = OrderMode::adaptive;
  config.costs.forward = {Time::from_units(1.5)};
  config.costs.link = {Time::from_units(1), Time::from_units(2), Time::from_units(0)};
  config.costs.overhead = Time::from_units(0.25);
  token.scenario.suspends = true;
  token.scenario.faults = {{Fault::Kind::fails, *parse_action("2B5")}, {Fault::Kind::cancel, {}}};
  token.deviations = {{0, 1}, {1, 3}, {300, 2}};

  const Token read = parse_token(to_string(token));
  EXPECT_EQ(to_string(read), to_string(token));
  EXPECT_EQ(to_string(read.scenario), to_string(token.scenario));
  EXPECT_EQ(to_string(read.scenario),
            "-S 4 -M 8 --order adaptive --credits 4,3,2,1 --slots 2 --forward 1.5 --link 1,2,0 "
            "--overhead 0.25, stages suspend, throw at 2B5, cancel");
  EXPECT_EQ(read.deviations, token.deviations);
  EXPECT_EQ(read.world, World::model);
  EXPECT_TRUE(read.own);
}

TEST(Token, OfAWalkHoldsItsSeedAndNotWhatItDid) {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
    Token token = token_of(8, 64);
    token.walk = Walk{StrategyName::pct, seed, 123'456'789, 3, 5000};
    const Token read = parse_token(to_string(token));
    EXPECT_EQ(read.walk, token.walk);
    EXPECT_EQ(to_string(read), to_string(token));
    EXPECT_LE(to_string(token).size(), 64);
  }
}

TEST(Token, OfTenDeviationsAndAFaultFitsInALine) {
  Token token = token_of(8, 32);
  token.scenario.config.drain_depth = 12;
  token.scenario.config.order = OrderMode::adaptive;
  token.scenario.faults = {{Fault::Kind::nan, *parse_action("7F31")}};
  for (std::uint32_t i = 0; i < 10; ++i) token.deviations.push_back({i * 100, i % 8 + 1});
  EXPECT_LE(to_string(token).size(), 64);
}

TEST(Token, AnyChangedLostOrAddedLetterIsNoticed) {
  Token token = token_of(3, 5);
  token.deviations = {{4, 1}, {9, 2}};
  const std::string text = to_string(token);
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char letter : std::string("Aa0_")) {
      std::string changed = text;
      changed[i] = letter;
      if (changed == text) continue;
      EXPECT_THROW(parse_token(changed), std::invalid_argument) << changed;
    }
    EXPECT_THROW(parse_token(text.substr(0, i)), std::invalid_argument);
  }
  EXPECT_THROW(parse_token(text + "A"), std::invalid_argument);
  try {
    parse_token("slc1:AAAA");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("its sum is wrong"));
  }
}

// What a swarm draws: everything there is, each with a plan, and a token that holds it.
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
