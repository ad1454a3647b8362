#include <sluice/back_to_back.hpp>

#include <stdexcept>

#include <sluice/order_sweep.hpp>

namespace sluice {

Time step_back_to_back(const Plan& plan) {
  SimulationOptions options;
  options.detail = Detail::metrics;
  detail::OrderSweep sweep(plan.rank_of, plan.ranks,
                           detail::ScheduleList{&plan.order, &plan.overlapped}, plan.microbatches,
                           plan.costs, options);
  // The first step fills the pipe, the second may still find it uneven.
  Time before;
  for (int step = 0; step < 3; ++step) {
    before = sweep.makespan();
    if (!sweep.run()) throw std::logic_error("the order of a plan gets stuck without slots");
  }
  return sweep.makespan() - before;
}

}  // namespace sluice
