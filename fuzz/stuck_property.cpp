// Stuck verdicts are exact: an order that cannot finish ends as stuck, with the cycle that the planner
// finds in virtual time; one that can is never called stuck.
//
// More cases: RC_PARAMS="max_success=1000000" ./stuck_property
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sluice/fuzz/property.hpp>
#include <sluice/pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>

#include "../tests/stuck_cycle.hpp"
#include "toy_model.hpp"

namespace sluice {
namespace {

/// The ranks of the cycle, the smallest first.
std::vector<int> cycle_of(const StuckError& stuck) {
  std::vector<int> ranks;
  if (!stuck.cyclic()) return ranks;
  for (const Wait& wait : stuck.waits()) ranks.push_back(wait.rank.value);
  std::rotate(ranks.begin(), std::min_element(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

SLUICE_PROPERTY(StuckProperty, AStepIsStuckExactlyWhenItsOrderIs) {
  PlanConfig config;
  config.stages = *rc::gen::inRange(1, 6);
  config.microbatches = *rc::gen::inRange(1, 7);
  config.drain_depth = *rc::gen::inRange(0, config.stages + config.microbatches);
  Plan plan = derive_plan(config);
  const int swaps = *rc::gen::inRange(0, 4);
  for (int i = 0; i < swaps; ++i) {
    auto& order = plan.order[*rc::gen::inRange<std::size_t>(0, plan.order.size())];
    std::swap(order[*rc::gen::inRange<std::size_t>(0, order.size())],
              order[*rc::gen::inRange<std::size_t>(0, order.size())]);
  }

  std::optional<std::vector<int>> expected;
  try {
    simulate_order(Schedule{plan.order, plan.rank_of, {}}, plan.microbatches, plan.costs);
  } catch (const StuckError& stuck) {
    expected = cycle_of(stuck);
  }
  // The door lets in what the plan's credits allow; a swapped order may want more at once.
  plan.credits.assign(plan.credits.size(), plan.microbatches);

  replay::DeterministicContext context(replay::seeded_picks(*rc::gen::arbitrary<std::uint64_t>()));
  PipelineOptions options;
  options.executors = replay::any_order(context);
  Pipeline<test::Toy> pipeline(plan, test::toy_factory(std::make_shared<test::ToyHooks>()),
                               options);
  std::string error = "never completed";
  pipeline.async_step(
      test::toy_batch(0, plan.microbatches),
      [&error](std::exception_ptr thrown, StepResult) { error = thrown ? text_of(thrown) : ""; });
  context.run();

  RC_TAG(expected.has_value());
  if (expected) {
    RC_ASSERT(error.substr(0, 6) == "stuck:");
    RC_ASSERT(test::cycle_in(error) == *expected);
  } else {
    RC_ASSERT(error.empty());
  }
}

}  // namespace
}  // namespace sluice
