// The critical path: the chain of actions that decided how long a step takes.
//
// Each action of it started at the moment when the one before it let it: because its rank was free
// then, or because its input was there. Whatever is not on the chain could have taken longer for
// nothing; what is on it is where time can be bought. Called by whoever explains a plan; pure
// functions, any executor.
#pragma once

#include <vector>

#include <sluice/plan.hpp>

namespace sluice {

struct CriticalPath {
  std::vector<TimedAction> actions;  ///< from the first of the step to the last
  std::vector<Time> of_stage;        ///< per stage: the time of its actions on the path
  Time between;                      ///< the rest of the makespan: links, and waits for slots
  StageId bottleneck;                ///< the stage with the most time on the path
};

/// Where several chains are as long, the one that stays on a rank as long as it can. Requires a plan
/// with its actions (Detail::actions).
CriticalPath critical_path(const Plan& plan);

/// How much sooner the step would end if everything on `stage` took one per cent less, in the order
/// that the plan has. The same requirement.
Time gain_of_one_percent(const Plan& plan, StageId stage);

}  // namespace sluice
