// Queue marks: the most values that ever wait between two stages.
//
// Called by whoever sizes buffers for a plan: with one slot more, for the value in the making, the
// timeline stays as it is. Pure function; any executor.
#pragma once

#include <vector>

#include <sluice/plan.hpp>

namespace sluice {

/// Per edge s -> s+1; 0 where both stages are on one rank.
struct QueueMarks {
  std::vector<int> down;  ///< outputs of forwards
  std::vector<int> up;    ///< gradients
};

/// A value waits from the end of what made it, the way to the neighbour included, until what takes it
/// starts; one that is taken at the moment it is made does not wait. Requires a plan with its actions.
QueueMarks queue_marks(const Plan& plan);

}  // namespace sluice
