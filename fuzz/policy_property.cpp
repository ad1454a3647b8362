// A policy asked in virtual time does what the engine does by itself: the fixed order keeps the plan's
// timeline, the adaptive rule is the law, with any costs, links and slots.
#include <algorithm>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <sluice/fuzz/property.hpp>
#include <sluice/fuzz/shapes.hpp>
#include <sluice/plan.hpp>
#include <sluice/policy_timeline.hpp>

namespace sluice {
namespace {

std::vector<std::tuple<Action, Time, Time>> times_of(const Timeline& timeline) {
  std::vector<std::tuple<Action, Time, Time>> times;
  for (const TimedAction& timed : timeline.actions) {
    times.emplace_back(timed.action, timed.start, timed.end);
  }
  return times;
}

SLUICE_PROPERTY(PolicyTimeline, FixedOrderKeepsThePlansTimeline) {
  PlanConfig config;
  // Not dualpipe-v: a policy is asked for one action at a time, and there two overlap.
  config.schedule = *rc::gen::element(ScheduleName::drain, ScheduleName::one_f_one_b,
                                      ScheduleName::gpipe, ScheduleName::eager_1f1b,
                                      ScheduleName::interleaved, ScheduleName::looped_bfs,
                                      ScheduleName::zb_h1, ScheduleName::zb_h2, ScheduleName::zb_v);
  config.stages = default_chunks(config.schedule) * *rc::gen::inRange(1, 5);
  config.microbatches = *rc::gen::inRange(1, 12);
  config.costs.forward = {*fuzz::gen_time(Time())};
  config.costs.backward = {*fuzz::gen_time(Time())};
  config.costs.link = {*fuzz::gen_time(Time())};
  if (*rc::gen::arbitrary<bool>()) config.slots = derive_plan(config).slots_safe.value_or(1);
  if (config.slots == 0) config.slots = 1;
  const Plan plan = derive_plan(config);
  FixedOrder policy;
  RC_ASSERT(times_of(simulate_policy(plan, policy)) == times_of(plan.timeline));
}

SLUICE_PROPERTY(PolicyTimeline, AdaptiveIsTheLaw) {
  PlanConfig config = (*fuzz::gen_uneven()).config();
  config.order = OrderMode::adaptive;
  if (*rc::gen::arbitrary<bool>()) config.slots = *rc::gen::inRange(1, 4);
  const Plan plan = derive_plan(config);
  Adaptive policy;
  RC_ASSERT(times_of(simulate_policy(plan, policy)) == times_of(plan.timeline));
}

}  // namespace
}  // namespace sluice
