// Schedules of several stages a rank, dealt round: stage s is on rank s mod P.
//
// The more stages a rank has, the shorter the pipe fills; each hand-over is paid V times. Pure data,
// private to schedule.cpp.
#pragma once

#include <sluice/schedule.hpp>

namespace sluice::detail {

/// 1F1B over virtual microbatches: groups of P microbatches go through a rank's stages one after
/// the other. Any M; the last group can be shorter, or all a little larger.
Schedule interleaved(int ranks, int chunks, int microbatches);

/// The same with split backwards in the memory of 1F1B: a weight gradient lags its input gradient by
/// as many as the rank's number, which is where time is left. With one chunk this is zb-h1 as published.
Schedule zb_h1(int ranks, int chunks, int microbatches);

/// All forwards stage by stage, then all backwards in exactly the opposite order.
Schedule looped_bfs(int ranks, int chunks, int microbatches);

}  // namespace sluice::detail
