// The law's table, row by row: equal stages, any costs, free links, never-blocking edges. Then what
// holds for any credit vector, unequal stages and slow links.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sluice/fuzz/invariants.hpp>
#include <sluice/fuzz/property.hpp>
#include <sluice/fuzz/shapes.hpp>
#include <sluice/law.hpp>
#include <sluice/log.hpp>
#include <sluice/plan.hpp>
#include <sluice/recommend.hpp>
#include <sluice/schedule.hpp>
#include <sluice/schedule_check.hpp>
#include <sluice/timeline.hpp>

namespace sluice {
namespace {

using fuzz::gen_shape;
using fuzz::gen_time;
using fuzz::gen_uneven;
using fuzz::Shape;
using fuzz::Uneven;

Timeline timeline_of(const Shape& shape) {
  return simulate_law(shape.stages, shape.microbatches,
                      law::credits(shape.stages, shape.drain_depth), shape.costs());
}

Timeline timeline_of(const Uneven& uneven) {
  return simulate_law(uneven.stages, uneven.microbatches, uneven.credits, uneven.costs);
}

/// A shape whose W is S-1 or more.
Shape deep_shape() {
  Shape shape = *gen_shape();
  shape.drain_depth = shape.stages - 1 + *rc::gen::inRange(0, shape.microbatches + 2);
  return shape;
}

SLUICE_PROPERTY(Law, EnteredWhenTheFirstBackwardStarts) {
  const auto shape = *gen_shape();
  RC_ASSERT(timeline_of(shape).entered_at_first_backward ==
            std::min(shape.drain_depth + 1, shape.microbatches));
}

SLUICE_PROPERTY(Law, TheOrderIsTheSameForEveryRatioOfForwardToBackward) {
  auto shape = *gen_shape();
  const Order order = order_of(timeline_of(shape));
  shape.forward = *gen_time(Time::from_units(0.01));
  shape.backward = *gen_time(Time::from_units(0.01));
  RC_ASSERT(order_of(timeline_of(shape)) == order);
}

SLUICE_PROPERTY(Law, PeakHeldIsTheCredit) {
  const auto shape = *gen_shape();
  const auto credits = law::credits(shape.stages, shape.drain_depth);
  const auto peaks = timeline_of(shape).peak_held;
  for (std::size_t s = 0; s < credits.size(); ++s) {
    RC_ASSERT(peaks[s] == std::min(shape.microbatches, credits[s]));
  }
}

SLUICE_PROPERTY(Law, MakespanWhenDeep) {
  const auto shape = deep_shape();
  RC_ASSERT(timeline_of(shape).makespan ==
            (shape.microbatches + shape.stages - 1) * (shape.forward + shape.backward));
}

SLUICE_PROPERTY(Law, MakespanWhenShallow) {
  auto shape = *gen_shape();
  shape.stages = *rc::gen::inRange(2, 9);
  shape.drain_depth = *rc::gen::inRange(0, shape.stages - 1);
  const int groups = (shape.microbatches - 1) / (shape.drain_depth + 1);
  const int rest = (shape.microbatches - 1) % (shape.drain_depth + 1);
  RC_ASSERT(timeline_of(shape).makespan ==
            (groups * shape.stages + rest + shape.stages) * (shape.forward + shape.backward));
}

SLUICE_PROPERTY(Law, TheRecommendationPricesEachDepthAsItsPlanDoes) {
  auto shape = *gen_shape();
  const Time overhead = *gen_time(Time());
  PlanConfig config;
  config.stages = shape.stages;
  config.microbatches = shape.microbatches;
  config.costs = shape.costs();
  config.costs.overhead = overhead;
  if (*rc::gen::arbitrary<bool>()) config.costs.link = {*gen_time(Time())};
  const auto prices = recommend_drain_depth(config).prices;
  const DepthPrice& price = prices[*rc::gen::inRange<std::size_t>(0, prices.size())];
  config.drain_depth = price.drain_depth;
  const Timeline timeline = derive_plan(config).timeline;
  RC_ASSERT(price.makespan == timeline.makespan);
  RC_ASSERT(price.most_held ==
            *std::max_element(timeline.peak_held.begin(), timeline.peak_held.end()));
}

SLUICE_PROPERTY(Law, SteadyPairsOnStageZero) {
  const auto shape = *gen_shape();
  const Order order = order_of(timeline_of(shape));
  const auto& of_rank = order.front();
  const auto first = std::find_if(of_rank.begin(), of_rank.end(), [](const Action& action) {
    return action.phase == Phase::backward;
  });
  const auto behind = std::count_if(
      first, of_rank.end(), [](const Action& action) { return action.phase == Phase::forward; });
  // The first pair's forward stands before the first backward, those of the others behind it.
  const auto pairs = shape.microbatches > shape.drain_depth ? behind + 1 : 0;
  RC_ASSERT(pairs == shape.microbatches - std::min(shape.microbatches, shape.drain_depth));
  if (pairs == 0) RC_ASSERT(behind == 0);
}

SLUICE_PROPERTY(Law, DepthZeroIsOneMicrobatchAtATime) {
  auto shape = *gen_shape();
  shape.drain_depth = 0;
  const Timeline timeline = timeline_of(shape);
  for (std::size_t i = 1; i < timeline.actions.size(); ++i) {
    RC_ASSERT(timeline.actions[i].start == timeline.actions[i - 1].end);
    RC_ASSERT(timeline.actions[i].action.mb >= timeline.actions[i - 1].action.mb);
  }
}

SLUICE_PROPERTY(Law, DepthOfStagesMinusOneIsOneForwardOneBackward) {
  auto shape = *gen_shape();
  shape.drain_depth = shape.stages - 1;
  const Order order = order_of(timeline_of(shape));
  for (int s = 0; s < shape.stages; ++s) {
    const auto& of_rank = order[static_cast<std::size_t>(s)];
    const int warm_up = std::min(shape.microbatches, shape.stages - 1 - s);
    for (int k = 0; k < 2 * shape.microbatches; ++k) {
      const bool forward = of_rank[static_cast<std::size_t>(k)].phase == Phase::forward;
      if (k < warm_up) RC_ASSERT(forward);
      const bool in_pairs = k >= warm_up && k < 2 * shape.microbatches - warm_up;
      if (in_pairs) RC_ASSERT(forward == ((k - warm_up) % 2 == 0));
    }
  }
}

SLUICE_PROPERTY(Law, DepthOfEverythingIsFillAndDrain) {
  auto shape = *gen_shape();
  shape.drain_depth = shape.microbatches + shape.stages - 2 + *rc::gen::inRange(0, 3);
  for (const auto& of_rank : order_of(timeline_of(shape))) {
    for (int k = 0; k < shape.microbatches; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const auto half = static_cast<std::size_t>(shape.microbatches);
      RC_ASSERT(of_rank[at].phase == Phase::forward);
      RC_ASSERT(of_rank[at].mb == MicrobatchId(k));
      RC_ASSERT(of_rank[half + at].phase == Phase::backward);
      RC_ASSERT(of_rank[half + at].mb == MicrobatchId(k));
    }
  }
}

SLUICE_PROPERTY(Law, DeepIsTheStaticOrder) {
  const auto shape = deep_shape();
  const Order order = static_order(shape.stages, shape.microbatches, shape.drain_depth);
  RC_ASSERT(order_of(timeline_of(shape)) == order);
  // The W that is read from an order is no more than there are microbatches to enter.
  RC_ASSERT(drain_depth_of(order, one_stage_a_rank(shape.stages)) ==
            std::min(shape.microbatches - 1, shape.drain_depth));
}

SLUICE_PROPERTY(Law, LockStepGivesTheDeepOrder) {
  // F(mb, s) at step 2 mb + s, B(mb, s) at step 2 mb + 2 W + 1 - s: sorting a stage's actions by
  // step gives its order.
  const auto shape = deep_shape();
  const Order order = static_order(shape.stages, shape.microbatches, shape.drain_depth);
  for (const auto& of_rank : order) {
    RC_ASSERT(std::is_sorted(of_rank.begin(), of_rank.end(), [&](const Action& a, const Action& b) {
      const auto step = [&](const Action& action) {
        return action.phase == Phase::forward
                   ? 2 * action.mb.value + action.stage.value
                   : 2 * action.mb.value + 2 * shape.drain_depth + 1 - action.stage.value;
      };
      return step(a) < step(b);
    }));
  }
}

SLUICE_PROPERTY(Law, FourRecordsForEveryStageAndMicrobatch) {
  const auto shape = *gen_shape();
  const auto log = expected_log(timeline_of(shape));
  RC_ASSERT(log.size() == static_cast<std::size_t>(4 * shape.stages * shape.microbatches));
  for (std::size_t i = 0; i < log.size(); ++i) {
    RC_ASSERT(log[i].seq == static_cast<std::int64_t>(i) + 1);
  }
}

SLUICE_PROPERTY(AnyCredits, EveryActionRunsOnceAndAfterItsCauses) {
  const auto uneven = *gen_uneven();
  const Timeline timeline = timeline_of(uneven);  // never stuck: it would throw
  const auto& actions = timeline.actions;
  RC_ASSERT(fuzz::complete(actions, uneven.stages, uneven.microbatches) == "");
  RC_ASSERT(fuzz::causal(actions, uneven.stages, uneven.microbatches, uneven.costs.link) == "");
  RC_ASSERT(fuzz::one_at_a_time(actions, uneven.stages) == "");
}

SLUICE_PROPERTY(AnyCredits, MicrobatchesAscendInBothPhases) {
  const auto uneven = *gen_uneven();
  // Order by position: actions of no length share their start.
  for (const auto& of_rank : order_of(timeline_of(uneven))) {
    int forward = 0;
    int backward = 0;
    for (const Action& action : of_rank) {
      RC_ASSERT(action.mb.value == (action.phase == Phase::forward ? forward++ : backward++));
    }
  }
}

SLUICE_PROPERTY(AnyCredits, NoStageHoldsMoreThanItsCredit) {
  const auto uneven = *gen_uneven();
  const Timeline timeline = timeline_of(uneven);
  RC_ASSERT(fuzz::within_credits(timeline.actions, uneven.credits) == "");
  for (std::size_t s = 0; s < uneven.credits.size(); ++s) {
    RC_ASSERT(timeline.peak_held[s] <= uneven.credits[s]);
  }
}

SLUICE_PROPERTY(AnyCredits, TheGateIsRespected) {
  const auto uneven = *gen_uneven();
  const int gate = law::gate(uneven.microbatches, uneven.credits);
  RC_ASSERT(fuzz::gate_respected(timeline_of(uneven).actions, uneven.stages, gate) == "");
}

SLUICE_PROPERTY(AnyCredits, WithOneSlotOrMoreTheLawNeverSticks) {
  const auto uneven = *gen_uneven();
  SimulationOptions options;
  options.slots = *rc::gen::inRange(1, 4);
  const Timeline timeline =
      simulate_law(uneven.stages, uneven.microbatches, uneven.credits, uneven.costs, options);
  const auto& actions = timeline.actions;
  RC_ASSERT(fuzz::complete(actions, uneven.stages, uneven.microbatches) == "");
  RC_ASSERT(fuzz::causal(actions, uneven.stages, uneven.microbatches, uneven.costs.link) == "");
  RC_ASSERT(fuzz::within_credits(actions, uneven.credits) == "");
  RC_ASSERT(fuzz::within_slots(actions, *options.slots) == "");
}

SLUICE_PROPERTY(AnyCredits, AsManySlotsAsCreditsNeverBlock) {
  const auto uneven = *gen_uneven();
  SimulationOptions options;
  options.slots = std::min(uneven.microbatches,
                           *std::max_element(uneven.credits.begin(), uneven.credits.end()));
  const Timeline limited =
      simulate_law(uneven.stages, uneven.microbatches, uneven.credits, uneven.costs, options);
  RC_ASSERT(order_of(limited) == order_of(timeline_of(uneven)));
  RC_ASSERT(limited.makespan == timeline_of(uneven).makespan);
}

SLUICE_PROPERTY(AnyCredits, TheOrderIsPricedAsTheLawRanIt) {
  const auto uneven = *gen_uneven();
  const Timeline by_law = timeline_of(uneven);
  const Schedule schedule{order_of(by_law), one_stage_a_rank(uneven.stages), {}};
  const Timeline priced = simulate_order(schedule, uneven.microbatches, uneven.costs);
  RC_ASSERT(priced.makespan == by_law.makespan);
  RC_ASSERT(priced.peak_held == by_law.peak_held);
}

SLUICE_PROPERTY(AnyCredits, TheOrderIsAWholeStepThatCanFinish) {
  const auto uneven = *gen_uneven();
  const Schedule schedule{order_of(timeline_of(uneven)), one_stage_a_rank(uneven.stages), {}};
  const auto error = check_schedule(schedule, uneven.microbatches);
  if (error) RC_FAIL(error->found + ": " + error->expected);
}

SLUICE_PROPERTY(AnyCredits, TheLogFollowsCauses) {
  const auto uneven = *gen_uneven();
  const auto rows = static_cast<std::size_t>(uneven.stages);
  const auto columns = static_cast<std::size_t>(uneven.microbatches);
  std::vector<std::vector<bool>> forward(rows, std::vector<bool>(columns, false));
  auto backward = forward;
  for (const LogRecord& record : expected_log(timeline_of(uneven))) {
    const std::size_t s = record.action.stage.index();
    const std::size_t mb = record.action.mb.index();
    const bool is_forward = record.action.phase == Phase::forward;
    if (record.event == LogRecord::Event::exit) {
      (is_forward ? forward : backward)[s][mb] = true;
    } else if (is_forward) {
      if (s > 0) RC_ASSERT(forward[s - 1][mb]);
    } else {
      RC_ASSERT(forward[s][mb]);
      // Not `||`: RC_ASSERT takes its expression apart, and evaluates both sides.
      if (s + 1 < rows) RC_ASSERT(backward[s + 1][mb]);
    }
  }
}

/// Everything but the actions.
void assert_same_metrics(const Timeline& a, const Timeline& b) {
  RC_ASSERT(a.makespan == b.makespan);
  RC_ASSERT(a.work == b.work);
  RC_ASSERT(a.peak_held == b.peak_held);
  for (std::size_t r = 0; r < b.ranks.size(); ++r) {
    RC_ASSERT(a.ranks[r].first_start == b.ranks[r].first_start);
    RC_ASSERT(a.ranks[r].last_end == b.ranks[r].last_end);
    RC_ASSERT(a.ranks[r].busy == b.ranks[r].busy);
  }
}

void assert_same_actions(const Timeline& a, const Timeline& b) {
  RC_ASSERT(a.actions.size() == b.actions.size());
  for (std::size_t i = 0; i < b.actions.size(); ++i) {
    RC_ASSERT(a.actions[i].action == b.actions[i].action);
    RC_ASSERT(a.actions[i].rank == b.actions[i].rank);
    RC_ASSERT(a.actions[i].start == b.actions[i].start);
    RC_ASSERT(a.actions[i].end == b.actions[i].end);
  }
}

SLUICE_PROPERTY(AnyCredits, TheSweepSaysWhatTheEngineSays) {
  auto uneven = *gen_uneven();
  uneven.costs.overhead = *gen_time(Time::from_units(0.01));
  if (*rc::gen::arbitrary<bool>()) {
    // Whole numbers meet at the same moment; very different ones leave a stage long in the dark.
    const int most = *rc::gen::element(2, 3, 1000);
    const auto whole = [most](Time& time) {
      time = Time::from_units(*rc::gen::element(1, 2, most));
    };
    std::for_each(uneven.costs.forward.begin(), uneven.costs.forward.end(), whole);
    std::for_each(uneven.costs.backward.begin(), uneven.costs.backward.end(), whole);
    std::for_each(uneven.costs.link.begin(), uneven.costs.link.end(), whole);
    uneven.costs.overhead = Time();
  }
  if (*rc::gen::arbitrary<bool>()) {
    uneven.costs.sizes = *rc::gen::container<std::vector<std::int64_t>>(
        static_cast<std::size_t>(uneven.microbatches), rc::gen::inRange<std::int64_t>(1, 5));
  }
  const Timeline sweep = timeline_of(uneven);
  // With slots there are events, and with as many as this none of them waits.
  SimulationOptions unlimited;
  unlimited.slots = uneven.microbatches;
  const Timeline engine =
      simulate_law(uneven.stages, uneven.microbatches, uneven.credits, uneven.costs, unlimited);
  assert_same_metrics(sweep, engine);
  assert_same_actions(sweep, engine);
  RC_ASSERT(sweep.entered_at_first_backward == engine.entered_at_first_backward);
  SimulationOptions metrics;
  metrics.detail = Detail::metrics;
  assert_same_metrics(
      simulate_law(uneven.stages, uneven.microbatches, uneven.credits, uneven.costs, metrics),
      engine);
}

SLUICE_PROPERTY(Static, TheWaveSaysWhatTheEngineSays) {
  const auto uneven = *gen_uneven();
  const int drain_depth = uneven.stages - 1 + *rc::gen::inRange(0, uneven.microbatches + 3);
  Costs costs = uneven.costs;
  costs.overhead = *gen_time(Time());
  if (*rc::gen::arbitrary<bool>()) {
    costs.sizes = *rc::gen::container<std::vector<std::int64_t>>(
        static_cast<std::size_t>(uneven.microbatches), rc::gen::inRange<std::int64_t>(1, 5));
  }
  SimulationOptions metrics;
  metrics.detail = Detail::metrics;
  const Timeline wave =
      simulate_static(uneven.stages, uneven.microbatches, drain_depth, costs, metrics);
  const Schedule schedule{static_order(uneven.stages, uneven.microbatches, drain_depth),
                          one_stage_a_rank(uneven.stages),
                          {}};
  const Timeline engine = simulate_order(schedule, uneven.microbatches, costs);
  assert_same_metrics(wave, engine);
  // Actions of no length leave open which of those at one moment came first.
  if (costs.overhead > Time()) {
    RC_ASSERT(wave.entered_at_first_backward == engine.entered_at_first_backward);
    const Timeline whole = simulate_static(uneven.stages, uneven.microbatches, drain_depth, costs);
    assert_same_metrics(whole, engine);
    assert_same_actions(whole, engine);
  }
}

SLUICE_PROPERTY(Plans, AnyShapeGivesAPlanOrFindings) {
  PlanConfig config;
  config.stages = *rc::gen::inRange(-2, 9);
  config.microbatches = *rc::gen::inRange(-2, 20);
  config.schedule = static_cast<ScheduleName>(*rc::gen::inRange(0, 10));
  config.order = *rc::gen::element(OrderMode::fixed, OrderMode::adaptive);
  if (*rc::gen::arbitrary<bool>()) config.drain_depth = *rc::gen::inRange(-2, 30);
  if (*rc::gen::arbitrary<bool>()) config.slots = *rc::gen::inRange(-1, 4);
  if (*rc::gen::inRange(0, 4) == 0) {
    config.credits = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-1, 6));
  }
  config.costs.forward = *rc::gen::container<std::vector<Time>>(
      *rc::gen::inRange<std::size_t>(0, 3),
      rc::gen::map(rc::gen::inRange(-1, 5), [](int units) { return Time::from_units(units); }));
  try {
    const Plan plan = derive_plan(config);
    RC_ASSERT(fuzz::complete(plan.timeline.actions, plan.stages, plan.microbatches) == "");
    RC_ASSERT(plan.order.size() == static_cast<std::size_t>(plan.ranks));
    for (const Finding& finding : plan.findings) RC_ASSERT(finding.severity == Severity::warning);
  } catch (const ConfigError& error) {
    RC_ASSERT(!error.findings().empty());
    for (const Finding& finding : error.findings()) {
      RC_ASSERT(finding.severity == Severity::error);
      RC_ASSERT(!finding.key.empty());
      RC_ASSERT(finding.message.find(finding.key) != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace sluice
