// Small configurations, and what derive_plan says against them. For the tests of plans.
#pragma once

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/plan.hpp>

namespace sluice::test {

inline PlanConfig shape(int stages, int microbatches, double forward = 1, double backward = 2) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.costs.forward = {Time::from_units(forward)};
  config.costs.backward = {Time::from_units(backward)};
  return config;
}

inline PlanConfig scheduled(ScheduleName schedule, PlanConfig config) {
  config.schedule = schedule;
  return config;
}

inline PlanConfig deep(int drain_depth, PlanConfig config) {
  config.drain_depth = drain_depth;
  return config;
}

inline std::vector<std::string> rules(const std::vector<Finding>& findings) {
  std::vector<std::string> result;
  for (const Finding& finding : findings) result.push_back(finding.rule);
  return result;
}

/// The errors for which `config` is refused; empty when it is not.
inline std::vector<Finding> errors(const PlanConfig& config) {
  try {
    derive_plan(config);
  } catch (const ConfigError& error) {
    EXPECT_FALSE(error.findings().empty());
    for (const Finding& finding : error.findings()) {
      EXPECT_EQ(finding.severity, Severity::error);
      EXPECT_THAT(std::string(error.what()), testing::HasSubstr(finding.message));
      EXPECT_THAT(finding.message, testing::HasSubstr(finding.key));
      EXPECT_FALSE(finding.key.empty());
      EXPECT_FALSE(finding.expected.empty());
      EXPECT_FALSE(finding.found.empty());
    }
    return error.findings();
  }
  return {};
}

inline std::string error(const PlanConfig& config) {
  const auto found = errors(config);
  return found.size() == 1 ? found.front().message
                           : std::to_string(found.size()) + " errors instead of one";
}

}  // namespace sluice::test
