// StepFit: what a unit of the plan is worth in seconds, from steps that were measured.
//
// People take one measured step, divide it by the number of slots, and predict the others with it. What
// does not grow with the number of microbatches (the optimizer, the data, the logging) is in that cost
// too, and so the prediction fails where there are few of them. The fit shows by how much, and what is
// fixed. Pure function; any executor.
#pragma once

#include <span>
#include <vector>

#include <sluice/plan.hpp>

namespace sluice {

/// A step with this M took this long.
struct StepPoint {
  int microbatches = 1;
  double seconds = 0;
};

struct StepFit {
  double unit = 0;  ///< seconds for a unit of the plan, by the point of largest M alone
  std::vector<double> predicted;  ///< seconds of each point, with that unit
  std::vector<double> error;      ///< predicted over measured, minus 1
  double fixed = 0;               ///< seconds of every step that M does not change, least squares
  double unit_beside = 0;         ///< seconds for a unit of the plan beside it
};

/// Each point is planned with the shape and costs of `config`, and its own M. With points of one M
/// only there is nothing fixed. Throws ConfigError when one cannot be planned, or is not positive.
StepFit fit_steps(const PlanConfig& config, std::span<const StepPoint> points);

}  // namespace sluice
