// A real run of a pipeline in virtual time: stage functions that only take as long as they are told to.
//
// The runtime, its policies and its coroutines are the real ones; the clock is the deterministic
// executor's, so that a makespan is exact and costs microseconds.
#pragma once

#include <functional>

#include <sluice/plan.hpp>

namespace sluice::fuzz {

/// How many times its planned cost an action takes.
using Slowness = std::function<double(const Action&)>;

/// Runs one step of `config`, one stage a rank, and returns its makespan in the config's unit (the overhead is
/// not simulated). Throws what the step throws.
double makespan_in_virtual_time(const PlanConfig& config, const Slowness& slowness);

}  // namespace sluice::fuzz
