#include <sluice/plan.hpp>

#include <algorithm>
#include <utility>

#include <sluice/checks.hpp>
#include <sluice/law.hpp>
#include <sluice/warnings.hpp>

namespace sluice {
namespace {

void keep(std::vector<Finding>& findings, std::optional<Finding> found) {
  if (found) findings.push_back(*std::move(found));
}

/// The credits of a schedule that has them: all but the listed ones.
std::vector<int> credits_of(const PlanConfig& config) {
  if (config.credits) return *config.credits;
  const auto stages = static_cast<std::size_t>(config.stages);
  if (config.schedule == ScheduleName::gpipe) return std::vector(stages, config.microbatches);
  if (config.schedule == ScheduleName::eager_1f1b) {
    std::vector<int> credits;
    credits.reserve(stages);
    for (int s = 0; s < config.stages; ++s) credits.push_back(2 * (config.stages - s) - 1);
    return credits;
  }
  const bool any_depth = config.schedule == ScheduleName::drain && config.drain_depth;
  return law::credits(config.stages, any_depth ? *config.drain_depth : config.stages - 1);
}

/// The same schedules' W.
int depth_of(const PlanConfig& config, const std::vector<int>& credits) {
  const bool any_depth = config.schedule == ScheduleName::drain && !config.credits;
  if (any_depth) return config.drain_depth.value_or(config.stages - 1);
  return std::min(config.microbatches, credits.front()) - 1;
}

/// What of a plan is a list of actions, without its times.
Schedule schedule_of(const PlanConfig& config) {
  if (config.custom) return *config.custom;
  if (!is_listed(config.schedule)) return {{}, one_stage_a_rank(config.stages), {}};
  return listed_schedule(config.schedule, config.stages, config.microbatches,
                         config.chunks.value_or(default_chunks(config.schedule)));
}

/// Forwards that the last stage starts before its first gradient.
int gate_of(const Schedule& schedule) {
  const StageId last(static_cast<std::int64_t>(schedule.rank_of.size()) - 1);
  int forwards = 0;
  for (const Action& action : schedule.order[schedule.rank_of.back().index()]) {
    if (action.stage != last) continue;
    if (action.phase != Phase::forward) break;
    ++forwards;
  }
  return forwards;
}

/// The W of the static order that `plan` runs; nothing when its order is another.
std::optional<int> static_depth(const Plan& plan) {
  if (plan.order_mode != OrderMode::fixed) return std::nullopt;
  if (plan.schedule == ScheduleName::one_f_one_b) return plan.stages - 1;
  if (plan.schedule == ScheduleName::gpipe) return plan.microbatches + plan.stages - 2;
  return std::nullopt;
}

/// Prices `schedule`, or where it has no order what `plan` says: 1f1b and gpipe are the static
/// orders whatever the costs, drain and eager are what the law gives.
Timeline timeline_of(const Plan& plan, const Schedule& schedule, Detail detail,
                     std::optional<int> slots) {
  SimulationOptions options;
  options.detail = detail;
  options.slots = slots;
  if (!schedule.order.empty()) {
    return simulate_order(schedule, plan.microbatches, plan.costs, options);
  }
  if (const auto depth = static_depth(plan)) {
    return simulate_static(plan.stages, plan.microbatches, *depth, plan.costs, options);
  }
  return simulate_law(plan.stages, plan.microbatches, plan.credits, plan.costs, options);
}

/// The fewest slots with which `schedule`, or what `plan` says, cannot get stuck.
std::optional<int> safe_slots(const Plan& plan, const Schedule& schedule) {
  if (plan.order_mode == OrderMode::adaptive) {
    // With one or more the law always finds something that it can do. With none it depends on timing
    // whether two stages hand over to each other, unless all forwards come before all backwards, or one
    // microbatch is inside at a time.
    const bool never_both = plan.stages == 1 || plan.gate == plan.microbatches ||
                            *std::max_element(plan.credits.begin(), plan.credits.end()) == 1;
    return never_both ? 0 : 1;
  }
  if (const auto depth = static_depth(plan)) {
    // It hands over in the order in which it takes, once the last stage has no forward left behind
    // its first backward.
    return plan.stages == 1 || *depth - plan.stages + 2 >= plan.microbatches ? 0 : 1;
  }
  if (schedule.order.empty()) return std::nullopt;
  int slots = 0;  // no more than M values ever wait on an edge
  while (slots < plan.microbatches && !can_finish(schedule, plan.microbatches, slots)) ++slots;
  return slots;
}

/// The makespan that the law gives with W = S-1, everything else as in `plan`; nothing when there
/// are too few slots for that.
std::optional<Time> makespan_at_one_f_one_b(const Plan& plan) {
  if (plan.drain_depth == plan.stages - 1) return plan.timeline.makespan;
  Plan usual;
  usual.stages = plan.stages;
  usual.microbatches = plan.microbatches;
  usual.order_mode = plan.order_mode;
  usual.credits = law::credits(plan.stages, plan.stages - 1);
  usual.costs = plan.costs;
  try {
    return timeline_of(usual, {}, Detail::metrics, plan.slots).makespan;
  } catch (const StuckError&) {
    return std::nullopt;
  }
}

std::vector<std::int64_t> spread(const std::vector<std::int64_t>& list, int stages) {
  if (list.size() == static_cast<std::size_t>(stages)) return list;
  return std::vector(static_cast<std::size_t>(stages), list.empty() ? 0 : list.front());
}

/// Per rank: what its stages always need, and the most they hold at once.
std::vector<std::int64_t> peak_bytes_of(const Plan& plan, const Order& order,
                                        const Memory& memory) {
  const auto fixed = spread(memory.fixed, plan.stages);
  const auto held = spread(memory.per_microbatch, plan.stages);
  std::vector<std::int64_t> peaks(static_cast<std::size_t>(plan.ranks), 0);
  if (plan.ranks < plan.stages) {
    peaks = peak_of_ranks(order, held);
  } else {
    for (std::size_t s = 0; s < held.size(); ++s) {
      peaks[plan.rank_of[s].index()] = held[s] * plan.timeline.peak_held[s];
    }
  }
  for (std::size_t s = 0; s < fixed.size(); ++s) peaks[plan.rank_of[s].index()] += fixed[s];
  return peaks;
}

void fill_bubbles(Plan& plan) {
  const double work = plan.timeline.work.units();
  const double room = plan.ranks * plan.timeline.makespan.units();
  if (work <= 0) return;
  plan.bubble_of_makespan = (room - work) / room;
  plan.bubble_of_ideal = (room - work) / work;
}

}  // namespace

Plan derive_plan(const PlanConfig& config) {
  std::vector<Finding> errors = check_config(config);
  if (errors.empty() && config.custom) keep(errors, check_custom(config));
  if (!errors.empty()) throw ConfigError(std::move(errors));

  Schedule schedule = schedule_of(config);
  const bool listed = !schedule.order.empty();
  Plan plan;
  plan.config = config;
  plan.stages = config.stages;
  plan.microbatches = config.microbatches;
  plan.schedule = config.custom ? ScheduleName::custom : config.schedule;
  plan.order_mode = config.order;
  plan.rank_of = schedule.rank_of;
  plan.ranks = listed ? static_cast<int>(schedule.order.size()) : config.stages;
  plan.costs = complete(config.costs, plan.stages);
  plan.slots = config.slots;
  if (listed) {
    plan.drain_depth = drain_depth_of(schedule.order, schedule.rank_of);
    plan.gate = gate_of(schedule);
  } else {
    plan.credits = credits_of(config);
    plan.drain_depth = depth_of(config, plan.credits);
    plan.gate = law::gate(plan.microbatches, plan.credits);
  }
  if (plan.schedule != ScheduleName::drain) {
    keep(errors, check_own_depth(config, plan.drain_depth));
    if (!errors.empty()) throw ConfigError(std::move(errors));
  }

  // The law lays a fixed order out for edges that never block; then it has to do with its slots.
  const bool laid_out = !listed && plan.order_mode == OrderMode::fixed && !static_depth(plan);
  if (laid_out) {
    const bool store = plan.slots || config.detail == Detail::actions;
    plan.timeline = timeline_of(plan, {}, store ? Detail::actions : Detail::metrics, {});
    if (store) schedule.order = order_of(plan.timeline);
  }
  plan.slots_safe = safe_slots(plan, schedule);
  if (!laid_out || plan.slots) {
    try {
      plan.timeline = timeline_of(plan, schedule, config.detail, plan.slots);
    } catch (const StuckError& stuck) {
      throw ConfigError({check_stuck(plan, stuck.what())});
    }
    if (plan.slots && plan.slots_safe && *plan.slots < *plan.slots_safe) {
      throw ConfigError({check_stuck(
          plan, "with these costs it runs, with others two stages would hand over to each other")});
    }
  }
  if (schedule.order.empty() && config.detail == Detail::actions) {
    schedule.order = order_of(plan.timeline);
  }
  if (listed) plan.credits = plan.timeline.peak_held;
  plan.peak_bytes = peak_bytes_of(plan, schedule.order, config.memory);
  keep(errors, check_memory(config, plan));
  if (!errors.empty()) throw ConfigError(std::move(errors));
  if (config.detail == Detail::actions) {
    plan.order = std::move(schedule.order);
    plan.overlapped = std::move(schedule.overlapped);
  }
  if (plan.stages > 1) {
    plan.slots_never_blocking = std::min(
        plan.microbatches, *std::max_element(plan.credits.begin(), plan.credits.end() - 1));
  }
  plan.entered_at_first_backward = plan.timeline.entered_at_first_backward;
  fill_bubbles(plan);

  keep(plan.findings, check_fill(plan));
  if (plan.schedule == ScheduleName::drain && !config.credits) {
    if (const auto usual = makespan_at_one_f_one_b(plan)) {
      keep(plan.findings, check_drain_depth(plan, *usual));
    }
  }
  return plan;
}

}  // namespace sluice
