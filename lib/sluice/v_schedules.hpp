// Schedules of two stages a rank in a V: rank r owns stage r on the way down and stage 2P-1-r on the
// way up, so the last stage sits beside the first and every rank holds the same.
//
// Pure data, private to schedule.cpp.
#pragma once

#include <sluice/schedule.hpp>

namespace sluice::detail {

/// Split backward; no idle time inside a rank's span at unit costs.
Schedule zb_v(int ranks, int microbatches);

/// Forwards and whole backwards of different microbatches overlap; split only while draining.
/// Requires microbatches >= 2 * ranks.
Schedule dualpipe_v(int ranks, int microbatches);

}  // namespace sluice::detail
