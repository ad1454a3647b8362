// The schedule that is laid out in virtual time. (zb-h1 is with those that are dealt round, the
// V-shaped ones are among themselves.) Pure data, private to schedule.cpp.
#pragma once

#include <sluice/schedule.hpp>

namespace sluice::detail {

/// A warm-up of 2(S-s)-1, then in virtual time at unit costs a ready input gradient first, else the
/// next forward while the stage holds less than 2S, else the oldest weight gradient.
Schedule zb_h2(int stages, int microbatches);

}  // namespace sluice::detail
