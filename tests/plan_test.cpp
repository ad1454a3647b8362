#include <sluice/plan.hpp>

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
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Plan, DefaultsAreOneForwardOneBackwardAtUnitCosts) {
  PlanConfig config;
  config.stages = 4;
  config.microbatches = 8;
  const Plan plan = derive_plan(config);
  EXPECT_EQ(plan.drain_depth, 3);
  EXPECT_EQ(plan.timeline.makespan.units(), 22);
  EXPECT_THAT(plan.credits, ElementsAre(4, 3, 2, 1));
  EXPECT_EQ(plan.gate, 1);
  EXPECT_EQ(plan.order, static_order(4, 8, 3));
  EXPECT_THAT(plan.rank_of, ElementsAre(RankId(0), RankId(1), RankId(2), RankId(3)));
  EXPECT_EQ(plan.costs.link.size(), 3U);
  EXPECT_THAT(plan.findings, testing::IsEmpty());
}

TEST(Plan, BothBubblesAreGiven) {
  const Plan plan = derive_plan(shape(4, 8));
  EXPECT_EQ(plan.timeline.makespan.units(), 33);
  EXPECT_DOUBLE_EQ(plan.bubble_of_makespan, 9.0 / 33);
  EXPECT_DOUBLE_EQ(plan.bubble_of_ideal, 9.0 / 24);
  EXPECT_EQ(plan.entered_at_first_backward, 4);
  EXPECT_THAT(plan.timeline.peak_held, ElementsAre(4, 3, 2, 1));
}

TEST(Plan, OneForwardOneBackwardAndGpipeAreStaticWhateverTheCosts) {
  PlanConfig config = shape(4, 32);
  config.costs.link = {Time::from_units(1)};
  EXPECT_EQ(derive_plan(deep(6, config)).timeline.makespan.units(), 111);
  const Plan static_plan = derive_plan(scheduled(ScheduleName::one_f_one_b, config));
  EXPECT_EQ(static_plan.timeline.makespan.units(), 157);
  EXPECT_EQ(static_plan.order, static_order(4, 32, 3));
  EXPECT_EQ(derive_plan(scheduled(ScheduleName::gpipe, config)).order, static_order(4, 32, 34));
}

TEST(Plan, EagerHidesTheLinkInLessMemory) {
  PlanConfig config = scheduled(ScheduleName::eager_1f1b, shape(4, 32));
  config.costs.link = {Time::from_units(1)};
  const Plan plan = derive_plan(config);
  EXPECT_EQ(plan.timeline.makespan.units(), 111);
  EXPECT_THAT(plan.credits, ElementsAre(7, 5, 3, 1));
  EXPECT_THAT(plan.timeline.peak_held, ElementsAre(7, 5, 3, 1));
}

TEST(Plan, EagerForwardsAreTwiceWhatIsBehindThem) {
  const Plan plan = derive_plan(scheduled(ScheduleName::eager_1f1b, shape(4, 8)));
  const auto row = [&plan](std::size_t rank) {
    std::string text;
    for (const Action& action : plan.order[rank]) text += to_string(action) + ' ';
    return text;
  };
  EXPECT_EQ(row(0), "0F0 0F1 0F2 0F3 0F4 0F5 0F6 0B0 0F7 0B1 0B2 0B3 0B4 0B5 0B6 0B7 ");
  EXPECT_EQ(row(3), "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7 ");
}

TEST(Plan, ASchedulesOwnDepthIsWhatStageZeroStartsBeforeItsFirstBackwardMinusOne) {
  for (const ScheduleName name :
       {ScheduleName::one_f_one_b, ScheduleName::gpipe, ScheduleName::eager_1f1b}) {
    for (int stages = 1; stages <= 5; ++stages) {
      for (int microbatches = 1; microbatches <= 12; ++microbatches) {
        const Plan plan = derive_plan(scheduled(name, shape(stages, microbatches, 1, 1)));
        const auto& of_rank = plan.order.front();
        const auto first = std::find_if(of_rank.begin(), of_rank.end(), [](const Action& action) {
          return action.phase == Phase::backward;
        });
        EXPECT_EQ(plan.drain_depth, first - of_rank.begin() - 1)
            << to_string(name) << ' ' << stages << ' ' << microbatches;
      }
    }
  }
}

TEST(Plan, CreditsInsteadOfADepth) {
  PlanConfig config = shape(4, 32);
  config.credits = std::vector<int>{7, 5, 3, 1};
  config.costs.link = {Time::from_units(1)};
  const Plan plan = derive_plan(config);
  EXPECT_EQ(plan.timeline.makespan.units(), 111);
  EXPECT_EQ(plan.drain_depth, 6);
  EXPECT_EQ(plan.gate, 1);
}

TEST(Plan, AdaptiveIsThePlanOfTheLaw) {
  PlanConfig config = scheduled(ScheduleName::one_f_one_b, shape(4, 32));
  config.costs.link = {Time::from_units(1)};
  config.order = OrderMode::adaptive;
  const Plan plan = derive_plan(config);
  EXPECT_EQ(plan.order_mode, OrderMode::adaptive);
  EXPECT_EQ(plan.timeline.makespan.units(), 157);
}

TEST(Plan, MetricsAloneLeaveTheActionsOut) {
  PlanConfig config = shape(4, 8);
  config.detail = Detail::metrics;
  const Plan plan = derive_plan(config);
  EXPECT_TRUE(plan.order.empty());
  EXPECT_TRUE(plan.timeline.actions.empty());
  EXPECT_EQ(plan.timeline.makespan.units(), 33);
}

// Shapes that stopped other systems.

TEST(Plan, OneMicrobatchRunsWithAWarning) {
  const Plan plan = derive_plan(scheduled(ScheduleName::one_f_one_b, shape(8, 1)));
  EXPECT_EQ(plan.timeline.makespan.units(), 24);
  EXPECT_DOUBLE_EQ(plan.bubble_of_makespan, 7.0 / 8);
  EXPECT_THAT(plan.timeline.peak_held, Each(1));
  ASSERT_THAT(rules(plan.findings), ElementsAre("fill"));
  EXPECT_EQ(plan.findings[0].severity, Severity::warning);
  EXPECT_EQ(plan.findings[0].key, "microbatches");
  EXPECT_THAT(plan.findings[0].message,
              AllOf(HasSubstr("microbatches = 1"), HasSubstr("stages = 8")));
}

TEST(Plan, OneMicrobatchThroughGpipe) {
  const Plan plan = derive_plan(scheduled(ScheduleName::gpipe, shape(4, 1)));
  EXPECT_EQ(plan.timeline.makespan.units(), 12);
  EXPECT_DOUBLE_EQ(plan.bubble_of_makespan, 3.0 / 4);
  EXPECT_EQ(plan.timeline.actions.size(), 8U);
}

TEST(Plan, MoreMicrobatchesAreNotAdvisedWhereTheOverheadEatsThem) {
  const auto split = [](int microbatches, double overhead) {
    PlanConfig config = shape(8, microbatches, 8.0 / microbatches, 16.0 / microbatches);
    config.costs.overhead = Time::from_units(overhead);
    return derive_plan(config);
  };
  EXPECT_EQ(split(8, 1).timeline.makespan.units(), 75);
  EXPECT_EQ(split(16, 1).timeline.makespan.units(), 80.5);
  ASSERT_THAT(rules(split(8, 1).findings), ElementsAre("fill"));
  EXPECT_THAT(split(8, 1).findings[0].message,
              HasSubstr("smaller ones would not help with overhead = 1: the same batch in more of "
                        "them takes 80.5 at best instead of 75"));
  // With a tenth of it they do.
  EXPECT_THAT(split(8, 0.1).findings[0].message,
              HasSubstr("cut the batch into 32 smaller ones, which takes 37.05 instead of 48 with "
                        "overhead = 0.1"));
  EXPECT_EQ(split(8, 0).timeline.makespan.units(), 45);
  EXPECT_THAT(split(8, 0).findings[0].message, HasSubstr("try 32"));
}

TEST(Plan, FewerMicrobatchesThanStages) {
  const Plan plan = derive_plan(shape(4, 2));
  EXPECT_EQ(plan.timeline.makespan.units(), 15);
  EXPECT_THAT(rules(plan.findings), ElementsAre("fill"));
}

TEST(Plan, AsManyMicrobatchesAsStagesWithOneSlot) {
  PlanConfig config = scheduled(ScheduleName::one_f_one_b, shape(4, 4));
  config.slots = 1;
  const Plan plan = derive_plan(config);
  EXPECT_EQ(plan.timeline.makespan.units(), 21);
  EXPECT_DOUBLE_EQ(plan.bubble_of_makespan, 3.0 / 7);
  EXPECT_THAT(plan.timeline.peak_held, ElementsAre(4, 3, 2, 1));
  config.slots = 0;
  EXPECT_THAT(error(config), AllOf(HasSubstr("slots = 0"), HasSubstr("cannot hand over 2F1"),
                                   HasSubstr("a cycle")));
}

TEST(Plan, StageZeroHoldsNoMoreThanTheStages) {
  EXPECT_THAT(derive_plan(scheduled(ScheduleName::one_f_one_b, shape(4, 8))).timeline.peak_held,
              ElementsAre(4, 3, 2, 1));
}

TEST(Plan, ARampOfTheBatchIsARampOfPlans) {
  const Plan first = derive_plan(deep(15, shape(16, 2)));
  EXPECT_DOUBLE_EQ(first.bubble_of_makespan, 15.0 / 17);
  std::vector<int> peaks(16, 2);
  peaks.back() = 1;
  EXPECT_EQ(first.timeline.peak_held, peaks);
  const Plan last = derive_plan(deep(15, shape(16, 192)));
  EXPECT_NEAR(last.bubble_of_makespan, 15.0 / 207, 1e-12);
}

TEST(Plan, OneStageHasNothingToFill) {
  const Plan plan = derive_plan(shape(1, 1));
  EXPECT_EQ(plan.bubble_of_makespan, 0);
  EXPECT_THAT(plan.findings, testing::IsEmpty());
}

// Every schedule side by side: four ranks, eight microbatches, a whole backward of two units.

struct Row {
  ScheduleName name;
  double makespan;
  double busy;
  std::vector<double> idle;  // inside each rank's own span
  std::vector<std::int64_t> peak;
};

std::ostream& operator<<(std::ostream& out, const Row& row) { return out << to_string(row.name); }

class Summary : public testing::TestWithParam<Row> {};

TEST_P(Summary, IsAsPublished) {
  const Row& row = GetParam();
  const int stages = 4 * default_chunks(row.name);
  const Plan plan = derive_plan(scheduled(row.name, shape(stages, 8)));
  EXPECT_EQ(plan.ranks, 4);
  EXPECT_EQ(plan.timeline.makespan.units(), row.makespan);
  std::vector<double> idle;
  for (const RankSpan& rank : plan.timeline.ranks) {
    EXPECT_EQ(rank.busy.units(), row.busy);
    idle.push_back((rank.last_end - rank.first_start - rank.busy).units());
  }
  EXPECT_EQ(idle, row.idle);
  EXPECT_EQ(peak_of_ranks(plan.order), row.peak);
  EXPECT_DOUBLE_EQ(plan.bubble_of_makespan, 1 - row.busy / row.makespan);
}

INSTANTIATE_TEST_SUITE_P(
    Plan, Summary,
    testing::Values(Row{ScheduleName::gpipe, 33, 24, {9, 6, 3, 0}, {8, 8, 8, 8}},
                    Row{ScheduleName::one_f_one_b, 33, 24, {9, 6, 3, 0}, {4, 3, 2, 1}},
                    Row{ScheduleName::eager_1f1b, 33, 24, {9, 6, 3, 0}, {7, 5, 3, 1}},
                    Row{ScheduleName::interleaved, 57, 48, {9, 6, 3, 0}, {11, 9, 7, 5}},
                    Row{ScheduleName::looped_bfs, 57, 48, {9, 6, 3, 0}, {16, 16, 16, 16}},
                    Row{ScheduleName::zb_h1, 27, 24, {3, 2, 1, 0}, {4, 4, 4, 4}},
                    Row{ScheduleName::zb_h2, 27, 24, {0, 0, 0, 0}, {8, 8, 8, 8}},
                    Row{ScheduleName::zb_v, 51, 48, {0, 0, 0, 0}, {8, 8, 8, 8}},
                    Row{ScheduleName::dualpipe_v, 54, 48, {6, 5, 4, 3}, {9, 9, 9, 9}}),
    [](const auto& param) {
      std::string name(to_string(param.param.name));
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(Plan, InterleavedZeroBubble) {
  PlanConfig config = scheduled(ScheduleName::zb_h1, shape(8, 8));
  config.chunks = 2;
  const Plan plan = derive_plan(config);
  EXPECT_EQ(plan.timeline.makespan.units(), 51);
  std::vector<double> idle;
  for (const RankSpan& rank : plan.timeline.ranks) idle.push_back(rank.idle().units());
  EXPECT_THAT(idle, ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(peak_of_ranks(plan.order), Each(8));
}

TEST(Plan, ZeroBubbleH1WithUnequalPhases) {
  PlanConfig config = scheduled(ScheduleName::zb_h1, shape(4, 8));
  config.costs.input_gradient = {Time::from_units(1.4)};
  config.costs.weight_gradient = {Time::from_units(0.7)};
  const Plan plan = derive_plan(config);
  // (S-1) (forward + input gradient - weight gradient)
  EXPECT_DOUBLE_EQ(plan.timeline.makespan.units() - 8 * 3.1, 5.1);
}

TEST(Plan, AListedScheduleHasCreditsAndAGateToo) {
  const Plan plan = derive_plan(scheduled(ScheduleName::zb_h1, shape(4, 8)));
  EXPECT_THAT(plan.credits, Each(4));
  EXPECT_EQ(plan.gate, 1);
  EXPECT_EQ(plan.drain_depth, 3);
}

TEST(Plan, AScheduleThatTheShapeDoesNotAllowIsRefused) {
  EXPECT_THAT(error(scheduled(ScheduleName::interleaved, shape(7, 8))),
              AllOf(HasSubstr("interleaved"), HasSubstr("stages = 7"), HasSubstr("multiple")));
  PlanConfig config = scheduled(ScheduleName::interleaved, shape(8, 8));
  config.order = OrderMode::adaptive;
  EXPECT_THAT(error(config), AllOf(HasSubstr("order = adaptive"), HasSubstr("fixed")));
  config = shape(4, 8);
  config.chunks = 2;
  EXPECT_THAT(error(config), HasSubstr("chunks = 2"));
}

TEST(Plan, ASchedulesOwnList) {
  PlanConfig config = shape(2, 1);
  config.custom = listed_schedule(ScheduleName::zb_h1, 2, 1, 1);
  const Plan plan = derive_plan(config);
  EXPECT_EQ(plan.schedule, ScheduleName::custom);
  EXPECT_EQ(plan.timeline.makespan.units(), 5);
  std::swap(config.custom->order[0][0], config.custom->order[0][1]);
  EXPECT_THAT(error(config),
              AllOf(HasSubstr("0I0 as action 1 of rank 0"), HasSubstr("0F0 before")));
}

// Slots.

TEST(Plan, StaticOrdersNeedOneSlotUnlessTheyOnlyFillAndDrain) {
  EXPECT_EQ(derive_plan(scheduled(ScheduleName::one_f_one_b, shape(4, 8))).slots_safe, 1);
  EXPECT_EQ(derive_plan(scheduled(ScheduleName::one_f_one_b, shape(4, 1))).slots_safe, 0);
  EXPECT_EQ(derive_plan(scheduled(ScheduleName::gpipe, shape(4, 8))).slots_safe, 0);
  EXPECT_EQ(derive_plan(shape(1, 8)).slots_safe, 0);
  EXPECT_EQ(derive_plan(shape(4, 8)).slots_never_blocking, 4);
  EXPECT_EQ(derive_plan(shape(4, 2)).slots_never_blocking, 2);
}

TEST(Plan, AnOrderFromAnotherVectorNeedsMoreSlots) {
  PlanConfig config = shape(2, 4, 1, 1);
  config.credits = std::vector<int>{4, 1};
  EXPECT_EQ(derive_plan(config).slots_safe, 2);
  config.slots = 1;
  EXPECT_THAT(error(config), AllOf(HasSubstr("slots = 1"), HasSubstr("expected 2 or more"),
                                   HasSubstr("rank 0 cannot start 0F3: no free slot to stage 1"),
                                   HasSubstr("(a cycle)")));
  config.slots = 2;
  EXPECT_THAT(errors(config), testing::IsEmpty());
  config.slots = 1;
  config.order = OrderMode::adaptive;
  EXPECT_EQ(derive_plan(config).slots_safe, 1);
}

// Memory.

}  // namespace
}  // namespace sluice
