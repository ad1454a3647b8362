#include <sluice/tune.hpp>

#include <algorithm>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/checks.hpp>

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TuneRequest request(int ranks, int microbatches, int layers) {
  TuneRequest result;
  result.ranks = ranks;
  result.microbatches = microbatches;
  result.layers = layers;
  result.costs.backward = {Time::from_units(2)};
  return result;
}

const Tuned* find(const Tuning& tuning, ScheduleName name) {
  const auto found =
      std::find_if(tuning.best.begin(), tuning.best.end(),
                   [name](const Tuned& each) { return each.config.schedule == name; });
  return found == tuning.best.end() ? nullptr : &*found;
}

TEST(Tune, WhatItPromisesIsWhatThePlanGives) {
  TuneRequest wanted = request(4, 8, 9);
  wanted.costs.link = {Time::from_units(0.5)};
  wanted.costs.overhead = Time::from_units(0.1);
  wanted.memory.per_microbatch = {10};
  const Tuning tuning = tune(wanted);
  ASSERT_GE(tuning.best.size(), 5U);
  for (const Tuned& tuned : tuning.best) {
    const Plan plan = derive_plan(tuned.config);
    EXPECT_EQ(plan.timeline.makespan, tuned.makespan) << to_string(tuned.config.schedule);
    EXPECT_EQ(*std::max_element(plan.peak_bytes.begin(), plan.peak_bytes.end()), tuned.most_bytes);
    EXPECT_EQ(std::accumulate(tuned.partition.begin(), tuned.partition.end(), 0), 9);
    EXPECT_GE(tuned.makespan, tuning.lower_bound);
  }
  EXPECT_TRUE(
      std::is_sorted(tuning.best.begin(), tuning.best.end(),
                     [](const Tuned& a, const Tuned& b) { return a.makespan < b.makespan; }));
}

// More microbatches make a smaller bubble, and pay the overhead of a call more often.
TEST(Tune, MoreMicrobatchesAreNotTakenWhereTheOverheadEatsThem) {
  TuneRequest wanted = request(8, 8, 8);
  wanted.choices = {8, 16};
  Tuning free = tune(wanted);
  ASSERT_NE(find(free, ScheduleName::one_f_one_b), nullptr);
  EXPECT_EQ(find(free, ScheduleName::one_f_one_b)->config.microbatches, 16);
  EXPECT_EQ(find(free, ScheduleName::one_f_one_b)->makespan.units(), 34.5);
  wanted.costs.overhead = Time::from_units(1);
  const Tuning slow = tune(wanted);
  EXPECT_EQ(find(slow, ScheduleName::one_f_one_b)->config.microbatches, 8);
  EXPECT_EQ(find(slow, ScheduleName::one_f_one_b)->makespan.units(), 75);
  EXPECT_EQ(slow.best.front().config.microbatches, 8);
}

TEST(Tune, AHeavyLayerHasAStageOfItsOwn) {
  TuneRequest wanted = request(2, 16, 5);
  wanted.choices = {16};
  wanted.costs.forward.clear();
  for (const double forward : {1.0, 1.0, 1.0, 1.0, 4.0}) {
    wanted.costs.forward.push_back(Time::from_units(forward));
  }
  wanted.costs.backward = wanted.costs.forward;
  const Tuning tuning = tune(wanted);
  EXPECT_EQ(find(tuning, ScheduleName::one_f_one_b)->partition, (std::vector<int>{4, 1}));
  EXPECT_TRUE(tuning.complete);
}

TEST(Tune, WhatDoesNotFitTheMemoryIsNoPlan) {
  TuneRequest wanted = request(4, 16, 4);
  wanted.choices = {16};
  wanted.memory.per_microbatch = {100};
  wanted.memory.fixed = {50};
  wanted.memory.cap = 450;  // four microbatches, as 1F1B needs on stage 0
  const Tuning tuning = tune(wanted);
  EXPECT_EQ(find(tuning, ScheduleName::gpipe), nullptr);
  EXPECT_EQ(find(tuning, ScheduleName::zb_h2), nullptr);
  ASSERT_NE(find(tuning, ScheduleName::one_f_one_b), nullptr);
  for (const Tuned& tuned : tuning.best) EXPECT_LE(tuned.most_bytes, 450);
  wanted.memory.cap = 149;
  EXPECT_TRUE(tune(wanted).best.empty());
}

TEST(Tune, TwentyUnevenLayersOnEightRanks) {
  TuneRequest wanted = request(8, 32, 20);
  std::mt19937 random(7);
  wanted.costs.forward.clear();
  wanted.costs.backward.clear();
  for (int layer = 0; layer < 20; ++layer) {
    const std::int64_t forward = 500'000 + random() % 1'000'000;
    wanted.costs.forward.push_back(Time::from_millionths(forward));
    wanted.costs.backward.push_back(Time::from_millionths(2 * forward));
  }
  wanted.costs.link = {Time::from_units(0.2)};
  wanted.costs.overhead = Time::from_units(0.05);
  double last = 0;
  const Tuning tuning = tune(wanted, [&last](double done) {
    EXPECT_GE(done, last);
    last = done;
  });
  EXPECT_EQ(last, 1);
  ASSERT_FALSE(tuning.best.empty());
  EXPECT_GE(tuning.best.front().makespan, tuning.lower_bound);
  EXPECT_LE(tuning.best.front().makespan.units(), 1.2 * tuning.lower_bound.units());
}

TEST(Tune, ManyLayersAreCutNearTheEvenestCut) {
  TuneRequest wanted = request(16, 16, 96);
  wanted.choices = {16};
  const Tuning tuning = tune(wanted);
  EXPECT_FALSE(tuning.complete);
  ASSERT_FALSE(tuning.best.empty());
  EXPECT_GE(tuning.best.front().makespan, tuning.lower_bound);
}

TEST(Tune, ARequestThatMakesNoSenseIsRefused) {
  const auto refusal = [](const TuneRequest& wanted) -> std::string {
    try {
      tune(wanted);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(request(5, 8, 4)),
              AllOf(HasSubstr("stages = 5"), HasSubstr("number of layers")));
  EXPECT_THAT(refusal(request(2, 0, 4)), HasSubstr("microbatches = 0"));
  TuneRequest wanted = request(3, 8, 6);
  wanted.costs.link = {Time(), Time(), Time()};
  EXPECT_THAT(refusal(wanted), HasSubstr("one for each of the 2 edges"));
  wanted = request(3, 8, 6);
  wanted.costs.forward = {Time(), Time()};
  EXPECT_THAT(refusal(wanted), HasSubstr("forward"));
}

}  // namespace
}  // namespace sluice
