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
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const SplitTable> split;
};

class StepPlans {
 public:
  explicit StepPlans(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

  /// M = 0: the plan's own. Throws ConfigError when the schedule does not exist for this M. Valid until the
  /// next call.
  const StepPlan& training(int microbatches);
  /// The same stages on the same ranks, forwards alone: of any M.
  const StepPlan& forward_only(int microbatches);

 private:
  using Known = std::map<int, StepPlan>;

  static constexpr std::size_t most_known = 8;
  static const StepPlan& keep(Known& known, std::shared_ptr<const Plan> plan);

  std::shared_ptr<const Plan> plan_;
  Known training_;
  Known forward_only_;
};

}  // namespace sluice::detail
