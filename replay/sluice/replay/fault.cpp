#include <sluice/replay/fault.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include <sluice/edges.hpp>
#include <sluice/random.hpp>

namespace sluice::replay {
namespace {

constexpr std::array<std::string_view, fault_kinds> fault_names{
    "throw", "slow", "nan", "alloc", "worker", "cancel", "deadline", "delay", "duplicate", "drop"};

/// On the way from one rank to another.
bool strikes_a_hand_over(Fault::Kind kind) { return kind >= Fault::Kind::delay; }
bool strikes_an_action(Fault::Kind kind) {
  return kind <= Fault::Kind::allocation || strikes_a_hand_over(kind);
}
/// Whether a fault of this kind means anything at `action`, one of the plan's. A weight gradient stays with
/// its stage: nobody looks for NaN in it but the stage.
bool means_something(Fault::Kind kind, const Action& action, std::span<const RankId> rank_of) {
  if (kind == Fault::Kind::nan) return action.phase != Phase::weight_gradient;
  return !strikes_a_hand_over(kind) || detail::sender_of(rank_of, action).has_value();
}

}  // namespace

std::string_view to_string(Fault::Kind kind) { return fault_names[static_cast<std::size_t>(kind)]; }

std::optional<Fault::Kind> parse_fault(std::string_view name) {
  const auto found = std::find(fault_names.begin(), fault_names.end(), name);
  if (found == fault_names.end()) return std::nullopt;
  return static_cast<Fault::Kind>(found - fault_names.begin());
}

std::string to_string(const Fault& fault) {
  std::string name(to_string(fault.kind));
  if (strikes_an_action(fault.kind)) return name + " at " + to_string(fault.action);
  if (fault.kind == Fault::Kind::worker) {
    return fmt::format("{} of stage {}", name, fault.action.stage.value);
  }
  return name;
}

bool can_strike(Fault::Kind kind, const Plan& plan) {
  return !strikes_a_hand_over(kind) || plan.ranks > 1;
}

bool can_strike(const Fault& fault, const Plan& plan) {
  if (!strikes_an_action(fault.kind)) return fault.action.stage.value < plan.stages;
  if (fault.action.stage.value >= plan.stages || fault.action.mb.value >= plan.microbatches) {
    return false;
  }
  if (!means_something(fault.kind, fault.action, plan.rank_of)) return false;
  return std::any_of(plan.order.begin(), plan.order.end(), [&](const auto& actions) {
    return std::find(actions.begin(), actions.end(), fault.action) != actions.end();
  });
}

Fault draw_fault(Fault::Kind kind, const Plan& plan, std::uint64_t seed, std::int64_t run) {
  KeyedRandom random(seed, run, "explore", static_cast<std::int64_t>(kind), "fault");
  Fault fault;
  fault.kind = kind;
  if (strikes_an_action(kind)) {
    std::vector<Action> places;
    for (const auto& actions : plan.order) {
      std::copy_if(
          actions.begin(), actions.end(), std::back_inserter(places),
          [&](const Action& action) { return means_something(kind, action, plan.rank_of); });
    }
    fault.action = places[random.below(static_cast<std::uint32_t>(places.size()))];
  } else if (kind == Fault::Kind::worker) {
    fault.action.stage = StageId(random.below(static_cast<std::uint32_t>(plan.stages)));
  }
  return fault;
}

}  // namespace sluice::replay
