// Your own schedule, held against the law by a property test.
//
// The schedule: 1F1B whose stage s starts with `extra` more forwards than it needs, to hide links.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sluice/fuzz/invariants.hpp>
#include <sluice/fuzz/shapes.hpp>
#include <sluice/fuzz/virtual_run.hpp>
#include <sluice/plan.hpp>

using namespace sluice;

Schedule eager(int stages, int microbatches, int extra) {
  Schedule schedule{{}, one_stage_a_rank(stages), {}};
  for (StageId s(0); s.value < stages; s = s.next()) {
    auto& actions = schedule.order.emplace_back();
    const int warm_up = std::min(microbatches, stages - s.value + extra);
    for (int i = 0; i < microbatches + warm_up; ++i) {
      if (i < microbatches) actions.emplace_back(s, Phase::forward, MicrobatchId(i));
      if (i >= warm_up - 1 && i + 1 - warm_up < microbatches) {
        actions.emplace_back(s, Phase::backward, MicrobatchId(i + 1 - warm_up));
      }
    }
  }
  return schedule;
}

RC_GTEST_PROP(Eager, RunsWithinItsMemoryAndKeepsItsTime, ()) {
  const auto shape = *fuzz::gen_shape();
  const int extra = *rc::gen::inRange(0, 4);
  PlanConfig config;
  config.stages = shape.stages;
  config.microbatches = shape.microbatches;
  config.costs = shape.costs();
  config.custom = eager(shape.stages, shape.microbatches, extra);

  const Plan plan = derive_plan(config);  // refuses an action too many, too few, or in a wait cycle
  std::vector<int> memory;
  for (int s = 0; s < shape.stages; ++s) memory.push_back(shape.stages - s + extra);
  RC_ASSERT(fuzz::within_credits(plan.timeline.actions, memory) == "");

  // The same order, run by the real runtime in virtual time.
  const double planned = plan.timeline.makespan.units();
  const double ran = fuzz::makespan_in_virtual_time(config, [](const Action&) { return 1.0; });
  RC_ASSERT(std::abs(ran - planned) < 1e-6 * planned);
}
