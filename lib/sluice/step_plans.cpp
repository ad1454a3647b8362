#include <sluice/step_plans.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice::detail {
namespace {

/// Microbatch after microbatch through every stage, as a pipeline without backwards runs them when each
/// forward takes as long as any other. What comes first there never waits for what comes later, so no order
/// of a rank can be stuck.
Plan forwards_of(const Plan& plan, int microbatches) {
  Plan forwards = plan;
  forwards.microbatches = microbatches;
  forwards.order_mode = OrderMode::fixed;
  for (auto& actions : forwards.order) actions.clear();
  if (plan.slots == 0 && plan.ranks < plan.stages) {
    // A rank that stays with its output until another takes it: of several microbatches under way each rank
    // could stay with one that the next cannot take. So one is under way at a time.
    for (MicrobatchId mb(0); mb.value < microbatches; mb = mb.next()) {
      for (StageId s(0); s.value < plan.stages; s = s.next()) {
        forwards.order[plan.rank_of[s.index()].index()].emplace_back(s, Phase::forward, mb);
      }
    }
    return forwards;
  }
  for (int moment = 0; moment < plan.stages + microbatches - 1; ++moment) {
    // From the last stage up, so that a forward is taken out of its slot before the next comes in.
    for (int s = std::min(moment, plan.stages - 1); s > moment - microbatches && s >= 0; --s) {
      const StageId stage(s);
      forwards.order[plan.rank_of[stage.index()].index()].push_back(
          Action(stage, Phase::forward, MicrobatchId(moment - s)));
    }
  }
  return forwards;
}

}  // namespace

const StepPlan& StepPlans::training(int microbatches) {
  if (microbatches == 0) microbatches = plan_->microbatches;
  const auto known = training_.find(microbatches);
  if (known != training_.end()) return known->second;
  if (microbatches == plan_->microbatches) return keep(training_, plan_);
  PlanConfig config = plan_->config;
  config.microbatches = microbatches;
  return keep(training_, std::make_shared<const Plan>(derive_plan(config)));
}

const StepPlan& StepPlans::forward_only(int microbatches) {
  if (microbatches == 0) microbatches = plan_->microbatches;
  const auto known = forward_only_.find(microbatches);
  if (known != forward_only_.end()) return known->second;
  return keep(forward_only_, std::make_shared<const Plan>(forwards_of(*plan_, microbatches)));
}

const StepPlan& StepPlans::keep(Known& known, std::shared_ptr<const Plan> plan) {
  if (known.size() == most_known) known.clear();  // a batch ramp comes by each M once
  StepPlan kept;
  kept.split = std::make_shared<const SplitTable>(*plan);
  kept.plan = std::move(plan);
  return known.emplace(kept.plan->microbatches, kept).first->second;
}

}  // namespace sluice::detail
