// Symptoms: where a plan and the run that was made of it differ, and which key mends it.
//
// What was measured may be in another unit than what was planned; how many of the one are one of the
// other is found first, so that a stage counts as slow only against the others. Called by whoever has
// both, after a run; it derives some plans of its own, so it is not part of a step. Pure function; any
// executor.
#pragma once

#include <optional>
#include <vector>

#include <sluice/finding.hpp>
#include <sluice/plan.hpp>
#include <sluice/time.hpp>
#include <sluice/timeline.hpp>

namespace sluice {

/// What a run took, in a unit of its own. A list with one element stands for every stage (or edge);
/// an empty one was not measured.
struct MeasuredTimes {
  std::vector<Time> forward;          ///< per stage
  std::vector<Time> backward;         ///< per stage; of a split one its two halves together
  std::vector<Time> input_gradient;   ///< per stage
  std::vector<Time> weight_gradient;  ///< per stage
  /// Per edge: from the end of an action to the start of the next, at the least. Not looked at where
  /// ranks have several stages.
  std::vector<Time> link;
  std::optional<Time> step;  ///< from the first start to the last end
};

/// A stage's share of the work, in the measured unit.
struct StageShare {
  Time planned_forward;
  Time measured_forward;
  Time planned_backward;
  Time measured_backward;
};

struct Symptoms {
  double unit = 1;                 ///< how much of the measured unit one of the plan's is
  std::vector<StageShare> shares;  ///< per stage
  /// The mean over the largest of what the stages take: 1 when they are equal. Times S, it is what
  /// the stages are worth.
  double balance = 1;
  StageId slowest;
  Costs costs;     ///< as measured, complete; with the overhead that explains the step
  Time planned;    ///< the step, as the plan has it
  Time explained;  ///< the step, as the measured times of its actions and links make it
  std::vector<Finding> findings;  ///< warnings
};

/// Throws ConfigError when a list has neither one element nor one a stage (or edge), when a time is
/// negative or nothing was measured.
Symptoms find_symptoms(const Plan& plan, const MeasuredTimes& measured);

}  // namespace sluice
