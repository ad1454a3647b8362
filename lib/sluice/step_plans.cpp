#include <sluice/step_plans.hpp>

#include <utility>
#include <vector>

namespace sluice::detail {
namespace {

Plan forward_only(const Plan& plan) {
  Plan forwards = plan;
  forwards.order_mode = OrderMode::fixed;
  for (auto& actions : forwards.order) {
    std::erase_if(actions, [](const Action& action) { return action.phase != Phase::forward; });
  }
  return forwards;
}

}  // namespace

const StepPlan& StepPlans::of(int microbatches) {
  if (microbatches == 0) microbatches = plan_->microbatches;
  const auto known = known_.find(microbatches);
  if (known != known_.end()) return known->second;
  StepPlan plan;
  plan.training = plan_;
  if (microbatches != plan_->microbatches) {
    PlanConfig config = plan_->config;
    config.microbatches = microbatches;
    plan.training = std::make_shared<const Plan>(derive_plan(config));
  }
  plan.forward_only = std::make_shared<const Plan>(forward_only(*plan.training));
  plan.split = std::make_shared<const SplitTable>(*plan.training);
  if (known_.size() == most_known) known_.clear();  // a batch ramp comes by each M once
  return known_.emplace(microbatches, std::move(plan)).first->second;
}

}  // namespace sluice::detail
