// Warnings about a plan that can be run, and will disappoint.
//
// `derive_plan` keeps what they find. Every finding names the configuration key, its value, the rule, and
// the change that mends it. Pure functions; any executor.
#pragma once

#include <optional>

#include <sluice/finding.hpp>
#include <sluice/plan.hpp>

namespace sluice {

/// `fill`: M <= S has no steady state. Where actions have an overhead, the advice is priced with it.
std::optional<Finding> check_fill(const Plan& plan);

/// `drain-depth`: W that is too small for full throughput, or that buys no time for its memory.
/// `at_one_f_one_b` is the makespan with W = S-1, everything else the same.
std::optional<Finding> check_drain_depth(const Plan& plan, Time at_one_f_one_b);

}  // namespace sluice
