// The plan that a recorded step followed, from its recording alone: for whoever has no configuration.
//
// Order, stages, ranks and microbatches are the recorded ones. Costs, credits and memory were not
// recorded: costs are units, and credits what the order needs. Pure functions; any executor.
#pragma once

#include <cstddef>
#include <optional>

#include <sluice/plan.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/schedule.hpp>

namespace sluice::replay {

/// Per rank, the planned order of a step; empty where the recording ends before it.
Order recorded_order(const Recording& recording, std::size_t step);

/// Nothing when the recording ends before every rank has its planned order. Throws ConfigError when
/// the recorded order is none that could run.
std::optional<Plan> recorded_plan(const Recording& recording, std::size_t step = 0);

}  // namespace sluice::replay
