#include <sluice/ids.hpp>

#include <type_traits>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include <sluice/time.hpp>

namespace sluice {
namespace {

static_assert(!std::is_convertible_v<int, StageId>);
static_assert(!std::is_convertible_v<StageId, RankId>);
static_assert(!std::is_constructible_v<MicrobatchId, StageId>);

TEST(Ids, AnActionIsWrittenStagePhaseMicrobatch) {
  EXPECT_EQ(to_string(Action(StageId(2), Phase::forward, MicrobatchId(5))), "2F5");
  EXPECT_EQ(to_string(Action(StageId(0), Phase::backward, MicrobatchId(0))), "0B0");
  EXPECT_EQ(to_string(Action(StageId(12), Phase::input_gradient, MicrobatchId(3))), "12I3");
  EXPECT_EQ(to_string(Action(StageId(7), Phase::weight_gradient, MicrobatchId(10))), "7W10");
}

TEST(Ids, WhatIsWrittenCanBeRead) {
  for (const char* text : {"0F0", "2B5", "12I3", "7W10", "2147483647F2147483647"}) {
    const auto action = parse_action(text);
    ASSERT_TRUE(action) << text;
    EXPECT_EQ(to_string(*action), text);
  }
}

TEST(Ids, AnythingElseIsRefused) {
  for (const char* text : {"", "F", "2F", "F5", "2F5 ", " 2F5", "2F5x", "-2F5", "2F-5", "+2F5",
                           "2X5", "2f5", "2FF5", "2147483648F0", "0F99999999999", "2 F5"}) {
    EXPECT_FALSE(parse_action(text)) << '"' << text << '"';
  }
}

TEST(Ids, ActionsSortByStageThenPhaseThenMicrobatch) {
  const std::vector<Action> sorted{
      Action(StageId(0), Phase::backward, MicrobatchId(9)),
      Action(StageId(1), Phase::forward, MicrobatchId(3)),
      Action(StageId(1), Phase::forward, MicrobatchId(4)),
      Action(StageId(1), Phase::backward, MicrobatchId(0)),
  };
  EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
}

TEST(Ids, OnlyBackwardAndWeightGradientRelease) {
  EXPECT_FALSE(releases(Phase::forward));
  EXPECT_TRUE(releases(Phase::backward));
  EXPECT_FALSE(releases(Phase::input_gradient));
  EXPECT_TRUE(releases(Phase::weight_gradient));
}

TEST(Ids, HashAsKeys) {
  const std::unordered_set<StageId> stages{StageId(1), StageId(2), StageId(1)};
  EXPECT_EQ(stages.size(), 2U);
}

TEST(Time, TenthsAddUpExactly) {
  Time sum;
  for (int i = 0; i < 10; ++i) sum += Time::from_units(0.1);
  EXPECT_EQ(sum, Time::from_units(1));
  EXPECT_EQ(3 * Time::from_units(0.7), Time::from_units(2.1));
}

TEST(Time, NumbersFromOutsideAreChecked) {
  EXPECT_EQ(Time::checked_units(2.5), Time::from_units(2.5));
  EXPECT_EQ(Time::checked_units(-1), Time::from_units(-1));
  EXPECT_FALSE(Time::checked_units(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(Time::checked_units(std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(Time::checked_units(1e13));
}

}  // namespace
}  // namespace sluice
