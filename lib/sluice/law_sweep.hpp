// The law without events: every stage goes as far ahead as it can see, sweep after sweep.
//
// What a stage does next is certain as soon as it knows when its next input and its next gradient
// arrive, or that they arrive too late to matter; and when a neighbour can hand something over at the
// earliest follows from what that neighbour waits for itself. So a stage runs ahead of its neighbours'
// clocks, no queue of events is kept, and each stage's numbers stay in a few cache lines. It is the
// engine's fast path for the law, and a property proves that it says what the engine says. Private to
// timeline.cpp.
#pragma once

#include <span>

#include <sluice/timeline.hpp>

namespace sluice::detail {

/// Whether every action takes time, without which `law_sweep` cannot. `costs` are complete.
bool takes_time(const Costs& costs);

/// What simulate_law says with edges that never block. Requires takes_time(costs). Memory without the
/// actions: some numbers a stage, and what waits between the stages.
Timeline law_sweep(int microbatches, std::span<const int> credits, const Costs& costs,
                   Detail detail);

}  // namespace sluice::detail
