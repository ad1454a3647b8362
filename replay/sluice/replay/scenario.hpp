// A scenario: one step of a pipeline, and what goes wrong in it on purpose.
//
// Value type; no executor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sluice/plan.hpp>
#include <sluice/replay/fault.hpp>

namespace sluice::replay {

struct Scenario {
  PlanConfig config;
  bool suspends = false;  ///< every stage function lets others go first, once
  std::vector<Fault> faults;
};

/// The shape as options of the command: `-S 2 -M 3 -W 1 --order adaptive`.
std::string options_of(const PlanConfig& config);
/// The same, then the faults.
std::string to_string(const Scenario& scenario);
/// The same with everything that was left to its default or follows: `S=4 on 2 ranks (V=2), M=8, ...`.
std::string expansion_of(const Scenario& scenario);

/// Drawn from (seed, run): a schedule, up to 5 ranks with up to 3 stages each, M up to 12, W or credits, slots
/// from the fewest safe ones, a cost for each stage and phase, a time for each link, the overhead, fixed or
/// adaptive order, whether stages suspend, and in three of four cases one of the faults of `kinds`. There is
/// a plan of it.
Scenario draw_scenario(std::uint64_t seed, std::int64_t run, std::span<const Fault::Kind> kinds);

}  // namespace sluice::replay
