// What was measured, in the words of what was derived.
//
// A MeasuredStep is a step's events as a timeline, so that the function that draws a plan draws it as
// well. MeasuredSteps keeps the last few and says which of them is typical.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include <sluice/event.hpp>
#include <sluice/metrics.hpp>
#include <sluice/plan.hpp>
#include <sluice/timeline.hpp>

namespace sluice::tools {

struct MeasuredStep {
  std::int64_t step = 0;
  Timeline timeline;           ///< actions and makespan, in milliseconds
  double bubble = 0;           ///< share of the makespan
  std::vector<int> peak_held;  ///< per rank
};

/// `events` of one step, in causal order.
MeasuredStep measure(std::span<const Event> events, const StepMetrics& metrics);

/// The step under the plan, in the columns that picture_of gives the plan.
std::string picture_of(const MeasuredStep& measured, const Plan& plan);

class MeasuredSteps {
 public:
  /// How many are kept.
  static constexpr std::size_t window = 64;

  void add(MeasuredStep step);
  bool empty() const { return steps_.empty(); }
  std::size_t size() const { return steps_.size(); }
  const MeasuredStep& last() const { return steps_.back(); }
  /// The one whose makespan is the median. Requires one at least.
  const MeasuredStep& median() const;

 private:
  std::deque<MeasuredStep> steps_;
};

}  // namespace sluice::tools
