// The timeline of a policy: what it would run, and when, in virtual time.
//
// The third way into the engine (timeline.hpp has the others). Asks the policy as the runtime would,
// with the plan's placement, costs, links and slots, but without stages, coroutines or threads. Pure
// but for what the policy does; any executor.
#pragma once

#include <stdexcept>

#include <sluice/plan.hpp>
#include <sluice/policy.hpp>
#include <sluice/timeline.hpp>

namespace sluice {

/// A policy that waits where nothing more can arrive. `what()` says what each rank could have run.
class PolicyStuckError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Lets `policy` decide every action of `plan`, whose own order only says which backwards are split.
/// Throws PolicyStuckError, std::out_of_range when the policy chooses what was not offered, and what
/// the policy throws.
Timeline simulate_policy(const Plan& plan, Policy& policy);

}  // namespace sluice
