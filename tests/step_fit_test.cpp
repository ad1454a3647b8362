#include <sluice/step_fit.hpp>

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

PlanConfig twelve_stages() {
  PlanConfig config;
  config.stages = 12;
  config.microbatches = 128;
  config.costs.forward = {Time::from_millionths(333'333)};
  config.costs.backward = {Time::from_millionths(666'667)};
  return config;
}

TEST(StepFit, AFixedTermExplainsWhatOnePointPredictsWrong) {
  // Measured seconds of a step through twelve stages; the last one is M+11 = 139 slots.
  const std::vector<StepPoint> points{{32, 35.77}, {64, 59.65}, {96, 83.11}, {128, 107.12}};
  const StepFit fit = fit_steps(twelve_stages(), points);
  EXPECT_NEAR(fit.unit, 107.12 / 139, 1e-6);
  const std::vector<double> predicted{33.1, 57.8, 82.5, 107.12};
  const std::vector<double> error{-0.074, -0.031, -0.008, 0};
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_NEAR(fit.predicted[i], predicted[i], 0.05);
    EXPECT_NEAR(fit.error[i], error[i], 0.0005);
  }
  EXPECT_NEAR(fit.fixed, 3.9, 0.05);
  // With it every point is hit within half a per cent.
  for (const StepPoint& point : points) {
    const double seconds = fit.fixed + fit.unit_beside * (point.microbatches + 11);
    EXPECT_NEAR(seconds / point.seconds, 1, 0.005);
  }
}

TEST(StepFit, OnePointHasNothingFixed) {
  const StepFit fit = fit_steps(twelve_stages(), std::vector<StepPoint>{{128, 107.12}});
  EXPECT_EQ(fit.fixed, 0);
  EXPECT_EQ(fit.unit_beside, fit.unit);
}

TEST(StepFit, PointsThatMakeNoSenseAreRefused) {
  EXPECT_THROW(fit_steps(twelve_stages(), {}), ConfigError);
  EXPECT_THROW(fit_steps(twelve_stages(), std::vector<StepPoint>{{128, 0}}), ConfigError);
  EXPECT_THROW(fit_steps(twelve_stages(), std::vector<StepPoint>{{0, 1}}), ConfigError);
}

}  // namespace
}  // namespace sluice
