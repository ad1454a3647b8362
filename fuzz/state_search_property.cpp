// The states of a plan against the planner: an order that virtual time can finish can be finished in every
// order of events, and one that it cannot gets stuck in every one; with slots and without.
//
// More cases: RC_PARAMS="max_success=100000" ./state_search_property
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include <sluice/fuzz/property.hpp>
#include <sluice/plan.hpp>
#include <sluice/replay/state_search.hpp>

namespace sluice {
namespace {

SLUICE_PROPERTY(StateSearchProperty, IsStuckExactlyWhenVirtualTimeIs) {
  PlanConfig config;
  config.stages = *rc::gen::inRange(1, 5);
  config.microbatches = *rc::gen::inRange(1, 5);
  config.drain_depth = *rc::gen::inRange(0, config.stages + config.microbatches);
  Plan plan = derive_plan(config);
  const int swaps = *rc::gen::inRange(0, 3);
  for (int i = 0; i < swaps; ++i) {
    auto& order = plan.order[*rc::gen::inRange<std::size_t>(0, plan.order.size())];
    std::swap(order[*rc::gen::inRange<std::size_t>(0, order.size())],
              order[*rc::gen::inRange<std::size_t>(0, order.size())]);
  }
  plan.credits.assign(plan.credits.size(), plan.microbatches);  // a swapped order may want more
  if (*rc::gen::arbitrary<bool>()) plan.slots = *rc::gen::inRange(1, 4);

  bool stuck = false;
  try {
    SimulationOptions options;
    options.slots = plan.slots;
    simulate_order(Schedule{plan.order, plan.rank_of, {}}, plan.microbatches, plan.costs, options);
  } catch (const StuckError&) {
    stuck = true;
  }
  FixedOrder policy;
  replay::SearchOptions options;
  options.by_law = false;  // a swapped order need not keep it
  const auto result = replay::search_states(plan, policy, options);
  RC_TAG(stuck, plan.slots.has_value());
  RC_ASSERT(result.wrong.has_value() == stuck);
  if (stuck) RC_ASSERT(result.wrong->kind == "stuck");
  RC_ASSERT(result.complete == !stuck);
}

// The law never gets stuck with one slot or more, whatever the credits; its own rules hold in every state.
SLUICE_PROPERTY(StateSearchProperty, TheLawIsCleanInEveryState) {
  PlanConfig config;
  config.stages = *rc::gen::inRange(1, 5);
  config.microbatches = *rc::gen::inRange(1, 6);
  config.credits = *rc::gen::container<std::vector<int>>(static_cast<std::size_t>(config.stages),
                                                         rc::gen::inRange(1, 6));
  config.slots = *rc::gen::inRange(1, 4);
  config.order = OrderMode::adaptive;
  const Plan plan = derive_plan(config);
  Adaptive policy;
  const auto result = replay::search_states(plan, policy);
  RC_ASSERT(result.complete);
}

}  // namespace
}  // namespace sluice
