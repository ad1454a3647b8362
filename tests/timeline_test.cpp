#include <sluice/timeline.hpp>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sluice/law.hpp>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Costs costs(double forward, double backward, double link = 0) {
  Costs result;
  result.forward = {Time::from_units(forward)};
  result.backward = {Time::from_units(backward)};
  result.link = {Time::from_units(link)};
  return result;
}

Schedule one_each(Order order) {
  auto rank_of = one_stage_a_rank(static_cast<int>(order.size()));
  return {std::move(order), std::move(rank_of), {}};
}

double law_span(int stages, int microbatches, int drain_depth, const Costs& with) {
  return simulate_law(stages, microbatches, law::credits(stages, drain_depth), with)
      .makespan.units();
}

double static_span(int stages, int microbatches, int drain_depth, const Costs& with) {
  return simulate_static(stages, microbatches, drain_depth, with).makespan.units();
}

/// Reads rows like `0F0,0F1,0B0` separated by blanks.
Order order_from(const std::string& rows) {
  Order order;
  std::istringstream by_row(rows);
  for (std::string row; by_row >> row;) {
    std::istringstream by_cell(row);
    auto& of_rank = order.emplace_back();
    for (std::string cell; std::getline(by_cell, cell, ',');) {
      of_rank.push_back(parse_action(cell).value());
    }
  }
  return order;
}

TEST(Timeline, EveryRowOfTheTable) {
  std::ifstream file(SLUICE_SOURCE_DIR "/tests/data/drain_depth.json");
  const auto rows = nlohmann::json::parse(file);
  ASSERT_EQ(rows.size(), 96U);
  for (const auto& row : rows) {
    const int stages = row["S"];
    const int microbatches = row["M"];
    const int drain_depth = row["W"];
    SCOPED_TRACE(row.dump());
    const auto credits = law::credits(stages, drain_depth);
    EXPECT_EQ(credits, row["credits"].get<std::vector<int>>());

    const Timeline even = simulate_law(stages, microbatches, credits, costs(1, 1));
    EXPECT_EQ(even.makespan.units(), row["span11"].get<double>());
    EXPECT_EQ(even.peak_held, row["peak"].get<std::vector<int>>());
    EXPECT_EQ(even.entered_at_first_backward, row["entered"].get<int>());
    const Timeline usual = simulate_law(stages, microbatches, credits, costs(1, 2));
    EXPECT_EQ(usual.makespan.units(), row["span12"].get<double>());
    EXPECT_EQ(usual.peak_held, row["peak"].get<std::vector<int>>());
    EXPECT_EQ(usual.entered_at_first_backward, row["entered"].get<int>());
    const double room = stages * usual.makespan.units();
    EXPECT_NEAR((room - usual.work.units()) / room, row["bubble12"].get<double>(), 1e-12);
    EXPECT_EQ(order_of(even), order_of(usual));

    for (int s = 0; s < stages; ++s) {
      std::string order;
      std::string start;
      for (const TimedAction& timed : even.actions) {
        if (timed.action.stage != StageId(s)) continue;
        order += letter(timed.action.phase);
        if (!start.empty()) start += ' ';
        start += std::to_string(timed.start.millionths / Time::per_unit);
      }
      EXPECT_EQ(order, row["order"][static_cast<std::size_t>(s)].get<std::string>());
      EXPECT_EQ(start, row["start11"][static_cast<std::size_t>(s)].get<std::string>());
    }
  }
}

TEST(Timeline, FourStagesEightMicrobatches) {
  EXPECT_EQ(law_span(4, 8, 3, {}), 22);
  EXPECT_EQ(law_span(4, 8, 3, costs(1, 2)), 33);
  EXPECT_EQ(law_span(4, 8, 2, costs(1, 2)), 39);
  EXPECT_THAT(simulate_law(4, 8, law::credits(4, 3), costs(1, 2)).peak_held,
              ElementsAre(4, 3, 2, 1));
}

TEST(Timeline, HopLatencyStallsTheStaticOrderWhateverTheDepth) {
  const Costs hop = costs(1, 2, 1);
  EXPECT_EQ(static_span(4, 32, 3, hop), 157);
  EXPECT_EQ(static_span(4, 32, 4, hop), 155);
  EXPECT_EQ(static_span(4, 32, 6, hop), 153);
}

TEST(Timeline, TheLawTurnsMemoryIntoLatencyHidden) {
  const Costs hop = costs(1, 2, 1);
  EXPECT_EQ(law_span(4, 32, 3, hop), 157);
  EXPECT_EQ(law_span(4, 32, 4, hop), 135);
  EXPECT_EQ(law_span(4, 32, 5, hop), 121);
  EXPECT_EQ(law_span(4, 32, 6, hop), 111);
  const std::vector<int> eager{7, 5, 3, 1};
  const Timeline timeline = simulate_law(4, 32, eager, hop);
  EXPECT_EQ(timeline.makespan.units(), 111);
  EXPECT_EQ(timeline.peak_held, eager);
}

TEST(Timeline, EightMicrobatchesWithAHop) {
  const Costs hop = costs(1, 2, 1);
  EXPECT_EQ(law_span(4, 8, 3, hop), 49);
  EXPECT_EQ(simulate_law(4, 8, std::vector<int>{7, 5, 3, 1}, hop).makespan.units(), 39);
  EXPECT_EQ(static_span(4, 8, 10, hop), 39);  // GPipe
}

TEST(Timeline, LinksCanDiffer) {
  Costs uneven = costs(1, 2);
  uneven.link = {Time::from_units(0.5), Time::from_units(2)};
  const Timeline timeline = simulate_law(3, 1, law::credits(3, 2), uneven);
  EXPECT_EQ(timeline.makespan.units(), 3 * 3 + 2 * 2.5);
}

TEST(Timeline, TheSlowestStageSetsThePace) {
  Costs uneven;
  uneven.forward.assign(8, Time::from_units(3.150));
  uneven.forward.front() = Time::from_units(3.153);
  uneven.forward.back() = Time::from_units(3.901);
  for (const Time forward : uneven.forward) uneven.backward.push_back(2 * forward);
  const Timeline timeline = simulate_static(8, 32, 7, uneven);
  EXPECT_DOUBLE_EQ(timeline.makespan.units(), 440.655);
  const double room = 8 * timeline.makespan.units();
  EXPECT_NEAR((room - timeline.work.units()) / room, 0.293, 0.0005);

  // The same work on equal stages.
  Time all;
  for (const Time forward : uneven.forward) all += forward;
  const double mean = all.units() / 8;
  EXPECT_NEAR(mean / 3.901, 0.832, 0.0005);
  EXPECT_NEAR(8 * mean / 3.901, 6.65, 0.005);
  const Timeline balanced = simulate_static(8, 32, 7, costs(mean, 2 * mean));
  EXPECT_NEAR(balanced.makespan.units(), 379.577, 0.001);
  EXPECT_NEAR(1 - balanced.work.units() / (8 * balanced.makespan.units()), 0.179, 0.0005);
}

TEST(Timeline, OverheadCanEatWhatMoreMicrobatchesGain) {
  const auto span = [](int microbatches, double overhead) {
    Costs with = costs(8.0 / microbatches, 16.0 / microbatches);
    with.overhead = Time::from_units(overhead);
    return static_span(8, microbatches, 7, with);
  };
  EXPECT_EQ(span(8, 0), 45);
  EXPECT_EQ(span(16, 0), 34.5);
  EXPECT_EQ(span(8, 1), 75);
  EXPECT_EQ(span(16, 1), 80.5);
}

TEST(Timeline, UnevenMicrobatches) {
  Costs by_sample = costs(1, 2);
  by_sample.sizes = {3, 3, 2};
  EXPECT_EQ(static_span(3, 3, 2, by_sample), 40);
  by_sample.sizes = {3, 3, 3};
  EXPECT_EQ(static_span(3, 3, 2, by_sample), 45);
}

TEST(Timeline, ActionsAreByStartThenRank) {
  const Timeline timeline = simulate_law(5, 9, law::credits(5, 3), costs(1, 2));
  ASSERT_EQ(timeline.actions.size(), 2U * 5 * 9);
  EXPECT_TRUE(std::is_sorted(timeline.actions.begin(), timeline.actions.end(),
                             [](const TimedAction& a, const TimedAction& b) {
                               return std::tie(a.start, a.rank) < std::tie(b.start, b.rank);
                             }));
}

TEST(Timeline, MetricsAloneAreTheSameMetrics) {
  SimulationOptions metrics;
  metrics.detail = Detail::metrics;
  const auto credits = law::credits(4, 5);
  const Timeline whole = simulate_law(4, 9, credits, costs(1, 2, 0.5));
  const Timeline bare = simulate_law(4, 9, credits, costs(1, 2, 0.5), metrics);
  EXPECT_TRUE(bare.actions.empty());
  EXPECT_EQ(bare.makespan, whole.makespan);
  EXPECT_EQ(bare.work, whole.work);
  EXPECT_EQ(bare.peak_held, whole.peak_held);
  EXPECT_EQ(bare.entered_at_first_backward, whole.entered_at_first_backward);
}

TEST(Timeline, RanksKnowTheirOwnSpan) {
  const Timeline timeline = simulate_law(4, 8, law::credits(4, 3), costs(1, 2));
  std::vector<double> idle;
  for (const RankSpan& rank : timeline.ranks) {
    idle.push_back((rank.last_end - rank.first_start - rank.busy).units());
  }
  EXPECT_THAT(idle, ElementsAre(9, 6, 3, 0));
}

TEST(Timeline, AnOrderIsPricedLikeTheLawThatGaveIt) {
  const Costs hop = costs(1, 2, 1);
  const Timeline by_law = simulate_law(4, 8, law::credits(4, 5), hop);
  const Timeline priced = simulate_order(one_each(order_of(by_law)), 8, hop);
  EXPECT_EQ(priced.makespan, by_law.makespan);
  EXPECT_EQ(priced.peak_held, by_law.peak_held);
}

TEST(Timeline, TheStaticOrderNeedNotBeWrittenDown) {
  const Timeline written = simulate_order(one_each(static_order(4, 8, 4)), 8, costs(1, 2));
  const Timeline direct = simulate_static(4, 8, 4, costs(1, 2));
  EXPECT_EQ(order_of(direct), order_of(written));
  EXPECT_EQ(direct.makespan, written.makespan);
}

TEST(Timeline, TwoStagesOnOneRankExchangeWithoutALink) {
  const Schedule one_rank{order_from("0F0,1F0,1B0,0B0"), {RankId(0), RankId(0)}, {}};
  SimulationOptions rendezvous;
  rendezvous.slots = 0;
  const Timeline timeline = simulate_order(one_rank, 1, costs(1, 2, 5), rendezvous);
  EXPECT_EQ(timeline.makespan.units(), 6);
}

TEST(Timeline, SplitBackward) {
  Costs thirds = costs(1, 2);
  const Timeline timeline = simulate_order(
      one_each(order_from("0F0,0F1,0I0,0W0,0I1,0W1 1F0,1I0,1F1,1I1,1W0,1W1")), 2, thirds);
  EXPECT_EQ(timeline.makespan.units(), 7);
  EXPECT_THAT(timeline.peak_held, ElementsAre(2, 2));
}

std::string why_stuck(const std::string& rows, int microbatches, std::optional<int> slots) {
  SimulationOptions options;
  options.slots = slots;
  try {
    simulate_order(one_each(order_from(rows)), microbatches, {}, options);
  } catch (const StuckError& stuck) {
    return stuck.what();
  }
  return "runs";
}

TEST(Timeline, AnImpossibleOrderIsNamed) {
  EXPECT_EQ(why_stuck("0B0,0F0 1F0,1B0", 1, std::nullopt),
            "stuck: rank 0 cannot start 0B0 until rank 1 has run 1B0; "
            "rank 1 cannot start 1F0 until rank 0 has run 0F0 (a cycle)");
  EXPECT_EQ(why_stuck("0F0,0B0 1B0,1F0", 1, std::nullopt),
            "stuck: rank 1 cannot start 1B0 until rank 1 has run 1F0 (a cycle)");
  EXPECT_EQ(why_stuck("0F0,0B0 1F0", 1, std::nullopt),
            "stuck: rank 0 cannot start 0B0 until rank 1 has run 1B0; "
            "that rank has nothing left to run");
}

TEST(Timeline, RendezvousDeadlocksAtTwoStagesAndTwoMicrobatches) {
  EXPECT_EQ(why_stuck("0F0,0F1,0B0,0B1 1F0,1B0,1F1,1B1", 2, 0),
            "stuck: rank 0 cannot hand over 0F1 until rank 1 starts 1F1; "
            "rank 1 cannot hand over 1B0 until rank 0 starts 0B0 (a cycle)");
  EXPECT_EQ(why_stuck("0F0,0F1,0B0,0B1 1F0,1B0,1F1,1B1", 2, 1), "runs");
  EXPECT_EQ(why_stuck("0F0,0B0 1F0,1B0", 1, 0), "runs");
}

TEST(Timeline, AnOrderFromAnotherVectorCanNeedMoreSlots) {
  const Timeline by_law = simulate_law(2, 4, std::vector<int>{4, 1}, {});
  SimulationOptions options;
  options.slots = 1;
  EXPECT_THROW(simulate_order(one_each(order_of(by_law)), 4, {}, options), StuckError);
  options.slots = 2;
  const Timeline priced = simulate_order(one_each(order_of(by_law)), 4, {}, options);
  EXPECT_EQ(priced.actions.size(), 16U);
  // The law itself waits for a slot and takes a backward meanwhile.
  options.slots = 1;
  EXPECT_EQ(simulate_law(2, 4, std::vector<int>{4, 1}, {}, options).actions.size(), 16U);
}

TEST(Timeline, OneSlotCostsOneForwardOneBackwardNothing) {
  SimulationOptions options;
  options.slots = 1;
  const Timeline timeline = simulate_static(4, 4, 3, costs(1, 2), options);
  EXPECT_EQ(timeline.makespan.units(), 21);
  EXPECT_THAT(timeline.peak_held, ElementsAre(4, 3, 2, 1));
}

TEST(Timeline, OrdersThatDoNotFitAreRefused) {
  const auto refused = [](const std::string& rows) {
    try {
      simulate_order(one_each(order_from(rows)), 2, {});
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refused("0F0,0F2 1F0"), HasSubstr("rank 0: 0F2"));
  EXPECT_THAT(refused("0F0 1F0,0F1"), HasSubstr("rank 1: 0F1"));
  EXPECT_THAT(refused("0F0 5F0"), HasSubstr("rank 1: 5F0"));
}

}  // namespace
}  // namespace sluice
