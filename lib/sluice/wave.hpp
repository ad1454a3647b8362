// The static order in lock step: a wave that runs down and up the stages, without events.
//
// Step by step, F(mb, s) is at step 2 mb + s and B(mb, s) at step 2 mb + 2 W + 1 - s: what an action
// waits for on its own stage and at its neighbour is always in an earlier step, so a moment a stage
// and one an edge and direction are all that is remembered, and no decision is left to make. It is
// the engine's fast path for one schedule, and a property proves that it says what the engine says.
// Private to timeline.cpp.
#pragma once

#include <sluice/timeline.hpp>

namespace sluice::detail {

/// What simulate_static says with edges that never block; `costs` are complete. Requires
/// drain_depth >= stages - 1, and for Detail::actions that every action takes time. Memory without the
/// actions: some numbers a stage and two a microbatch.
Timeline wave(int stages, int microbatches, int drain_depth, const Costs& costs, Detail detail);

}  // namespace sluice::detail
