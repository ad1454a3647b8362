// Schedules that split the backward: the previous stage waits for the input gradient only, so the
// weight gradient can fill a bubble. One stage a rank. Pure data, private to schedule.cpp.
#pragma once

#include <sluice/schedule.hpp>

namespace sluice::detail {

/// 1F1B's warm-up; on stage s the weight gradient runs s microbatches behind the input gradient, so
/// that no stage holds more than stage 0 does.
Schedule zb_h1(int stages, int microbatches);

/// A warm-up of 2(S-s)-1, then in virtual time at unit costs a ready input gradient first, else the
/// next forward while the stage holds less than 2S, else the oldest weight gradient.
Schedule zb_h2(int stages, int microbatches);

}  // namespace sluice::detail
