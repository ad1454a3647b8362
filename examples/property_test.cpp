// Your own schedule, held against the law by a property test.
//
// The schedule: 1F1B whose stage s starts with `extra` more forwards than it needs, to hide links.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include <sluice/fuzz/invariants.hpp>
#include <sluice/fuzz/property.hpp>
#include <sluice/fuzz/shapes.hpp>
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

PlanConfig config_of(const fuzz::Shape& shape, int extra) {
  PlanConfig config;
  config.stages = shape.stages;
  config.microbatches = shape.microbatches;
  config.costs = shape.costs();
  config.custom = eager(shape.stages, shape.microbatches, extra);
  return config;
}

// The law, in one line: no action too many, too few, twice or before its cause, no cycle of waits, and the
// real runtime takes the planned time.
SLUICE_HOLDS_AT_ANY_SHAPE(Eager, [](const fuzz::Shape& shape) { return config_of(shape, 2); })

// What this schedule promises besides.
SLUICE_PROPERTY(Eager, HoldsAsManyMoreAsItSays) {
  const auto shape = *fuzz::gen_shape();
  const int extra = *rc::gen::inRange(0, 4);
  std::vector<int> memory;
  for (int s = 0; s < shape.stages; ++s) memory.push_back(shape.stages - s + extra);
  const Plan plan = derive_plan(config_of(shape, extra));
  RC_ASSERT(fuzz::within_credits(plan.timeline.actions, memory) == "");
}
