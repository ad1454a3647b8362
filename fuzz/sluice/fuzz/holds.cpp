#include <sluice/fuzz/holds.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>

#include <fmt/format.h>

#include <sluice/fuzz/invariants.hpp>
#include <sluice/fuzz/virtual_run.hpp>
#include <sluice/log_check.hpp>

namespace sluice::fuzz {
namespace {

/// The first that is not empty.
std::string first_of(std::initializer_list<std::string> found) {
  for (const std::string& each : found) {
    if (!each.empty()) return each;
  }
  return "";
}

bool overlaps(const Plan& plan) {
  return std::any_of(plan.overlapped.begin(), plan.overlapped.end(),
                     [](const auto& of_rank) { return !of_rank.empty(); });
}

std::string whole(const Plan& plan, std::span<const TimedAction> actions,
                  std::span<const Time> link) {
  return first_of(
      {complete(actions, plan.stages, plan.microbatches),
       causal(actions, plan.stages, plan.microbatches, link),
       plan.slots ? within_slots(actions, *plan.slots) : "",
       is_listed(plan.schedule) ? "" : gate_respected(actions, plan.stages, plan.gate)});
}

/// With a fixed order: that each rank did what the plan says, from the beginning.
std::string in_order(const Plan& plan, std::span<const TimedAction> actions) {
  if (plan.order_mode != OrderMode::fixed) return ascending(actions, plan.stages);
  std::vector<std::size_t> done(plan.order.size(), 0);
  for (const TimedAction& timed : actions) {
    const auto& planned = plan.order[timed.rank.index()];
    const std::size_t at = done[timed.rank.index()]++;
    if (at < planned.size() && planned[at] == timed.action) continue;
    return fmt::format("rank {} runs {} as number {} of its actions; planned is {}",
                       timed.rank.value, to_string(timed.action), at,
                       at < planned.size() ? to_string(planned[at]) : "none");
  }
  return "";
}

bool runs_in_virtual_time(const Plan& plan) {
  // With links the law's choice may depend on what arrives in the same moment, and virtual time knows no
  // same moment.
  const bool free = std::all_of(plan.costs.link.begin(), plan.costs.link.end(),
                                [](Time link) { return link == Time(); });
  const auto whole_backwards = [](const auto& of_rank) {
    return std::none_of(of_rank.begin(), of_rank.end(),
                        [](const Action& action) { return action.phase == Phase::input_gradient; });
  };
  return plan.ranks == plan.stages && plan.costs.overhead == Time() && plan.costs.sizes.empty() &&
         (free || plan.order_mode == OrderMode::fixed) &&
         std::all_of(plan.order.begin(), plan.order.end(), whole_backwards);
}

std::string legal(const Plan& plan, std::span<const TimedAction> actions) {
  return first_of({one_at_a_time(actions, plan.ranks), within_credits(actions, plan.credits),
                   in_order(plan, actions)});
}

}  // namespace

std::string holds(const Plan& plan) {
  const auto& actions = plan.timeline.actions;
  return first_of({whole(plan, actions, plan.costs.link),
                   overlaps(plan) ? "" : one_at_a_time(actions, plan.ranks),
                   within_credits(actions, plan.credits)});
}

std::string holds(const PlanConfig& config) {
  Plan plan;
  try {
    plan = derive_plan(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  const std::string found = holds(plan);
  if (!found.empty() || !runs_in_virtual_time(plan)) return found;
  const double planned = plan.timeline.makespan.units();
  const double ran = makespan_in_virtual_time(config, [](const Action&) { return 1.0; });
  if (std::abs(ran - planned) <= 1e-6 * planned) return "";
  return fmt::format("planned are {} units of time, the runtime takes {}", planned, ran);
}

std::vector<TimedAction> timeline_of(std::span<const Event> events) {
  std::vector<TimedAction> actions;
  std::map<Action, std::size_t> place;
  std::int64_t now = 0;
  const auto end = Time::from_units(static_cast<double>(events.size()) + 1);
  for (const Event& event : events) {
    const Time time = Time::from_units(static_cast<double>(++now));
    if (event.kind == Event::Kind::enter) {
      place[event.action] = actions.size();
      actions.push_back(TimedAction{event.action, event.rank, time, end});
    } else if (event.kind == Event::Kind::exit || event.kind == Event::Kind::failed) {
      const auto entered = place.find(event.action);
      if (entered != place.end()) actions[entered->second].end = time;
    }
  }
  return actions;
}

std::string holds(const Plan& plan, std::span<const Event> events) {
  const auto actions = timeline_of(events);
  const std::vector<Time> no_link(plan.costs.link.size());
  return first_of({whole(plan, actions, no_link), legal(plan, actions)});
}

std::string holds_as_far_as_it_came(const Plan& plan, std::span<const Event> events) {
  return legal(plan, timeline_of(events));
}

std::string holds(const Plan& plan, std::string_view log) {
  LogCheck check(plan);
  check.feed(check.add("log"), log);
  const LogReport report = check.finish();
  if (report.verdict == Verdict::pass) return "";
  return report.findings.empty() ? std::string(to_string(report.verdict))
                                 : report.findings.front().message;
}

std::string holds(const Plan& plan, const replay::Recording& recording) {
  for (std::size_t k = 0; k < recording.steps(); ++k) {
    const replay::RecordedStep step = recording.step(k);
    const auto events = merge_events(step.ranks);
    const bool succeeded = step.complete && step.error.empty();
    const std::string found =
        succeeded ? holds(plan, events) : holds_as_far_as_it_came(plan, events);
    if (!found.empty()) return fmt::format("step {}: {}", step.number, found);
  }
  return "";
}

}  // namespace sluice::fuzz
