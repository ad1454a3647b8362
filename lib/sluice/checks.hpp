// Checks of a configuration: what cannot be run. (What can, and will disappoint: warnings.hpp.)
//
// `derive_plan` calls these and throws, or keeps, what they find; a command that only checks calls
// them too. Every finding names the configuration key, its value, the rule, and the change that
// mends it. Pure functions; any executor.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <sluice/finding.hpp>
#include <sluice/plan.hpp>

namespace sluice {

/// Everything in `config` that makes it impossible to derive a plan; empty when a plan can be
/// derived. Never throws on a bad value.
std::vector<Finding> check_config(const PlanConfig& config);

/// `slots`: fewer than the order needs.
Finding check_stuck(const Plan& plan, std::string_view why);

/// `drain-depth`: a W beside a schedule that has its own, `own`, and they contradict each other.
std::optional<Finding> check_own_depth(const PlanConfig& config, int own);

/// `memory`: a rank's peak over the cap; names its first stage.
std::optional<Finding> check_memory(const PlanConfig& config, const Plan& plan);

/// The largest W of the law with which every stage fits under the cap; nothing when not even 0
/// does. Without a cap M+S-2, beyond which nothing changes. Requires a config without findings.
std::optional<int> deepest_in_memory(const PlanConfig& config);

/// `schedule`: a list that is no step, or that cannot run.
std::optional<Finding> check_custom(const PlanConfig& config);

}  // namespace sluice
