// The runtime under any configuration and any fault, in orders of the explorer: it ends as it must.
//
// More cases: RC_PARAMS="max_success=100000" ./scenario_property
#include <string>

#include <gtest/gtest.h>

#include <sluice/fuzz/property.hpp>
#include <sluice/fuzz/scenarios.hpp>

namespace sluice {
namespace {

SLUICE_PROPERTY(ScenarioProperty, EveryScenarioEndsAsItMustInEveryOrderTried) {
  const auto scenario = *fuzz::gen_scenario();
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  RC_TAG(scenario.faults.empty() ? std::string("no fault")
                                 : std::string(to_string(scenario.faults.front().kind)));
  const std::string wrong = fuzz::explored(scenario, seed, 20);
  if (!wrong.empty()) RC_FAIL(wrong);
}

// What the law, the order and the slots make of a configuration is what the timeline of its plan shows.
SLUICE_PROPERTY(ScenarioProperty, EveryPlanHolds) {
  RC_ASSERT(fuzz::holds(derive_plan(*fuzz::gen_config())) == "");
}

}  // namespace
}  // namespace sluice
