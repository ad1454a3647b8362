// The plans of a pipeline's steps: M may differ from step to step, and an evaluation has no backwards.
//
// Derived when they are first asked for, and kept for the M that come up often. Used by one caller at a
// time.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include <sluice/plan.hpp>
#include <sluice/split_table.hpp>

namespace sluice::detail {

/// What a step of M microbatches needs of the plan.
struct StepPlan {
  std::shared_ptr<const Plan> training;
  std::shared_ptr<const Plan> forward_only;  ///< every stage's forwards, in the plan's order
  std::shared_ptr<const SplitTable> split;
};

class StepPlans {
 public:
  explicit StepPlans(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

  /// 0: the plan's own M. Throws ConfigError when the plan does not exist for this M. Valid until the
  /// next call.
  const StepPlan& of(int microbatches);

 private:
  static constexpr std::size_t most_known = 8;

  std::shared_ptr<const Plan> plan_;
  std::map<int, StepPlan> known_;
};

}  // namespace sluice::detail
