#include <sluice/plan.hpp>

#include <algorithm>
#include <utility>

#include <sluice/checks.hpp>
#include <sluice/law.hpp>

namespace sluice {
namespace {

std::vector<int> credits_of(const PlanConfig& config) {
  if (config.credits) return *config.credits;
  switch (config.schedule) {
    case ScheduleName::gpipe:
      return std::vector<int>(static_cast<std::size_t>(config.stages), config.microbatches);
    case ScheduleName::eager_1f1b: {
      std::vector<int> credits;
      for (int s = 0; s < config.stages; ++s) credits.push_back(2 * (config.stages - s) - 1);
      return credits;
    }
    case ScheduleName::one_f_one_b: return law::credits(config.stages, config.stages - 1);
    case ScheduleName::drain: break;
  }
  return law::credits(config.stages, config.drain_depth.value_or(config.stages - 1));
}

int drain_depth_of(const PlanConfig& config, const std::vector<int>& credits) {
  const auto own = own_drain_depth(config.schedule, config.stages, config.microbatches);
  if (own) return *own;
  if (config.credits) return std::min(config.microbatches, credits.front()) - 1;
  return config.drain_depth.value_or(config.stages - 1);
}

/// 1f1b and gpipe are the static orders whatever the costs; the others are what the law gives.
Timeline timeline_of(const Plan& plan, Detail detail) {
  SimulationOptions options;
  options.detail = detail;
  options.slots = plan.slots;
  const bool fixed = plan.order_mode == OrderMode::fixed;
  if (fixed && plan.schedule == ScheduleName::one_f_one_b) {
    return simulate_static(plan.stages, plan.microbatches, plan.stages - 1, plan.costs, options);
  }
  if (fixed && plan.schedule == ScheduleName::gpipe) {
    return simulate_static(plan.stages, plan.microbatches, plan.microbatches + plan.stages - 2,
                           plan.costs, options);
  }
  return simulate_law(plan.stages, plan.microbatches, plan.credits, plan.costs, options);
}

/// The makespan that the law gives with W = S-1, everything else as in `plan`; nothing when there
/// are too few slots for that.
std::optional<Time> makespan_at_one_f_one_b(const Plan& plan) {
  if (plan.drain_depth == plan.stages - 1) return plan.timeline.makespan;
  SimulationOptions options;
  options.detail = Detail::metrics;
  options.slots = plan.slots;
  const auto credits = law::credits(plan.stages, plan.stages - 1);
  try {
    return simulate_law(plan.stages, plan.microbatches, credits, plan.costs, options).makespan;
  } catch (const StuckError&) {
    return std::nullopt;
  }
}

void keep(std::vector<Finding>& findings, std::optional<Finding> found) {
  if (found) findings.push_back(*std::move(found));
}

}  // namespace

Plan derive_plan(const PlanConfig& config) {
  auto errors = check_config(config);
  if (!errors.empty()) throw ConfigError(std::move(errors));

  Plan plan;
  plan.stages = config.stages;
  plan.ranks = config.stages;
  plan.microbatches = config.microbatches;
  plan.schedule = config.schedule;
  plan.order_mode = config.order;
  plan.credits = credits_of(config);
  plan.drain_depth = drain_depth_of(config, plan.credits);
  plan.gate = law::gate(plan.microbatches, plan.credits);
  for (int s = 0; s < plan.stages; ++s) plan.rank_of.push_back(RankId(s));
  plan.costs = complete(config.costs, plan.stages);
  plan.slots = config.slots;

  try {
    plan.timeline = timeline_of(plan, config.detail);
  } catch (const StuckError& stuck) {
    throw ConfigError({check_stuck(plan, stuck)});
  }
  if (config.detail == Detail::actions) plan.order = order_of(plan.timeline);
  plan.entered_at_first_backward = plan.timeline.entered_at_first_backward;
  const double work = plan.timeline.work.units();
  const double room = plan.ranks * plan.timeline.makespan.units();
  if (work > 0) {
    plan.bubble_of_makespan = (room - work) / room;
    plan.bubble_of_ideal = (room - work) / work;
  }

  keep(plan.findings, check_fill(plan));
  if (config.schedule == ScheduleName::drain && !config.credits) {
    const auto usual = makespan_at_one_f_one_b(plan);
    if (usual) keep(plan.findings, check_drain_depth(plan, *usual));
  }
  return plan;
}

}  // namespace sluice
