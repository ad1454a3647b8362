// Generators of whole configurations, of faults in them, and of both: `const auto scenario = *gen_scenario();`.
//
// Every schedule that has a name, and every part of a plan that may differ: stages a rank, W or credits, order,
// slots, costs, links. Small, and with a plan; what a failing property prints can be typed back into
// `sluice explore`. Called inside a property, on its thread.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include <rapidcheck.h>

#include <sluice/plan.hpp>
#include <sluice/replay/scenario.hpp>

namespace sluice {
/// For rapidcheck to print, as all here.
std::ostream& operator<<(std::ostream& out, const PlanConfig& config);
}  // namespace sluice

namespace sluice::replay {

std::ostream& operator<<(std::ostream& out, const Scenario& scenario);
std::ostream& operator<<(std::ostream& out, const Fault& fault);

}  // namespace sluice::replay

namespace sluice::fuzz {

/// Up to 4 ranks with up to 3 stages each, M up to 8.
rc::Gen<PlanConfig> gen_config();

/// A fault of any kind that can strike in `plan`, at an action of its.
rc::Gen<replay::Fault> gen_fault(const Plan& plan);

/// One of the above, and at most one fault.
rc::Gen<replay::Scenario> gen_scenario();

/// Runs the runtime in this many orders, drawn from `seed`. What is wrong in the first that fails, with its
/// token, or an empty string.
std::string explored(const replay::Scenario& scenario, std::uint64_t seed, int orders);

}  // namespace sluice::fuzz
