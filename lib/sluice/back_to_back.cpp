#include <sluice/back_to_back.hpp>

namespace sluice {
namespace {

/// The makespan of `steps` steps in a row. Microbatch mb of step k is number k * M + mb.
Time makespan_of(const Plan& plan, int steps) {
  Schedule schedule{Order(plan.order.size()), plan.rank_of, {}};
  schedule.overlapped.resize(plan.order.size());
  Costs costs = plan.costs;
  for (int step = 0; step < steps; ++step) {
    for (std::size_t r = 0; r < plan.order.size(); ++r) {
      if (!plan.overlapped.empty()) {
        const std::size_t behind = schedule.order[r].size();
        for (const std::size_t at : plan.overlapped[r])
          schedule.overlapped[r].push_back(behind + at);
      }
      for (Action action : plan.order[r]) {
        action.mb = MicrobatchId(std::int64_t{step} * plan.microbatches + action.mb.value);
        schedule.order[r].push_back(action);
      }
    }
    if (step > 0) {
      costs.sizes.insert(costs.sizes.end(), plan.costs.sizes.begin(), plan.costs.sizes.end());
    }
  }
  SimulationOptions options;
  options.detail = Detail::metrics;
  return simulate_order(schedule, steps * plan.microbatches, costs, options).makespan;
}

}  // namespace

Time step_back_to_back(const Plan& plan) {
  // The first step fills the pipe, the second may still find it uneven.
  return makespan_of(plan, 3) - makespan_of(plan, 2);
}

}  // namespace sluice
