// Back to back: what a step takes when nothing separates it from the next.
//
// A rank that has finished its part of a step, its own update included, goes on with the next one
// instead of waiting for all the others. Time inside a rank's own span counts then, the staggered
// start and end do not; zb-h2 and zb-v are made for it. Pure function; any executor.
#pragma once

#include <sluice/plan.hpp>

namespace sluice {

/// The time by which one more step prolongs a run, each rank repeating its order. Requires a plan with
/// its order (Detail::actions). Costs three timelines.
Time step_back_to_back(const Plan& plan);

}  // namespace sluice
