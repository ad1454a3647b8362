// Tokens: what they hold, that they stay short, and that a changed letter is noticed.
#include <array>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/token.hpp>

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
}  // namespace
}  // namespace sluice::replay
