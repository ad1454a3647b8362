#include <sluice/symptoms.hpp>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<Time> times(const std::vector<double>& units) {
  std::vector<Time> result;
  result.reserve(units.size());
  for (const double each : units) result.push_back(Time::from_units(each));
  return result;
}

Plan plan_of(int stages, int microbatches, double link = 0, double backward = 2) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.costs.backward = times({backward});
  config.costs.link = times({link});
  return derive_plan(config);
}

std::vector<std::string> keys_of(const Symptoms& symptoms) {
  std::vector<std::string> keys;
  keys.reserve(symptoms.findings.size());
  for (const Finding& finding : symptoms.findings) keys.push_back(finding.key);
  return keys;
}

TEST(Symptoms, ARunLikeItsPlanHasNone) {
  // In milliseconds, and a little off.
  MeasuredTimes measured;
  measured.forward = times({3.1, 3.0, 2.9, 3.0});
  measured.backward = times({6.1, 5.9, 6.0, 6.0});
  measured.step = Time::from_units(101);
  const Symptoms symptoms = find_symptoms(plan_of(4, 8), measured);
  EXPECT_THAT(symptoms.findings, IsEmpty());
  EXPECT_NEAR(symptoms.unit, 3, 1e-9);
  EXPECT_NEAR(symptoms.planned.units(), 99, 1e-6);
  EXPECT_GT(symptoms.balance, 0.97);
}

TEST(Symptoms, TheSlowStageIsNamedAndWhatTheStagesAreWorth) {
  MeasuredTimes measured;
  measured.forward = times({3.153, 3.150, 3.150, 3.150, 3.150, 3.150, 3.150, 3.901});
  for (const Time forward : measured.forward) measured.backward.push_back(2 * forward);
  const Symptoms symptoms = find_symptoms(plan_of(8, 32), measured);
  EXPECT_NEAR(symptoms.balance, 0.832, 0.0005);
  EXPECT_EQ(symptoms.slowest, StageId(7));
  EXPECT_DOUBLE_EQ(symptoms.explained.units(), 440.655);
  EXPECT_THAT(keys_of(symptoms), ElementsAre("stages", "forward", "backward"));
  EXPECT_THAT(symptoms.findings[0].message,
              AllOf(HasSubstr("stage 7 takes 11.703"), HasSubstr("are worth 6.65"),
                    HasSubstr("83.2% balance"), HasSubstr("sluice tune")));
  EXPECT_THAT(symptoms.findings[1].message,
              AllOf(HasSubstr("forward = 1: on stage 7"), HasSubstr("the run took 3.901"),
                    HasSubstr("set forward = [3.153, 3.15, 3.15")));
  EXPECT_EQ(symptoms.findings[1].stage, StageId(7));
}

TEST(Symptoms, ABackwardThatIsNoTwoForwards) {
  MeasuredTimes measured;
  measured.forward = times({1});
  measured.backward = times({3});
  const Symptoms symptoms = find_symptoms(plan_of(4, 8), measured);
  EXPECT_THAT(keys_of(symptoms), ElementsAre("forward", "backward"));
  EXPECT_THAT(symptoms.findings[1].message, HasSubstr("set backward = 3"));
}

TEST(Symptoms, ALinkThatNobodyPlannedWantsAnotherDepth) {
  MeasuredTimes measured;
  measured.forward = times({1});
  measured.backward = times({2});
  measured.link = times({1});
  const Symptoms symptoms = find_symptoms(plan_of(4, 32), measured);
  EXPECT_THAT(keys_of(symptoms), ElementsAre("link", "drain_depth"));
  EXPECT_THAT(symptoms.findings[0].message, HasSubstr("set link = 1"));
  EXPECT_THAT(symptoms.findings[1].message,
              AllOf(HasSubstr("drain_depth = 3: "), HasSubstr("6 would take 111 instead of 157")));
}

TEST(Symptoms, ValuesThatWaitForARankWithSeveralStagesAreNoSlowLink) {
  PlanConfig config;
  config.stages = 8;
  config.microbatches = 8;
  config.schedule = ScheduleName::interleaved;
  MeasuredTimes measured;
  measured.forward = times({1});
  measured.backward = times({1});
  measured.link = times({0, 0, 0, 5, 0, 0, 0});
  EXPECT_THAT(find_symptoms(derive_plan(config), measured).findings, IsEmpty());
}

TEST(Symptoms, WhatTheActionsDoNotExplainIsOverhead) {
  // Half a unit on every action: (M+S-1) (f+b+2/2).
  MeasuredTimes measured;
  measured.forward = times({1});
  measured.backward = times({2});
  measured.step = Time::from_units(11 * 4);
  const Symptoms symptoms = find_symptoms(plan_of(4, 8), measured);
  EXPECT_THAT(keys_of(symptoms), ElementsAre("overhead"));
  EXPECT_THAT(symptoms.findings[0].message,
              AllOf(HasSubstr("the step took 44"), HasSubstr("explain 33"),
                    HasSubstr("overhead = 0.5 explains it")));
  EXPECT_NEAR(symptoms.costs.overhead.units(), 0.5, 1e-4);
}

TEST(Symptoms, AStepThatIsTooShortIsNotThisPlans) {
  MeasuredTimes measured;
  measured.forward = times({1});
  measured.backward = times({2});
  measured.step = Time::from_units(30);
  const Symptoms symptoms = find_symptoms(plan_of(4, 8), measured);
  EXPECT_THAT(keys_of(symptoms), ElementsAre("schedule"));
}

TEST(Symptoms, OneHalfOfAnActionIsEnough) {
  MeasuredTimes measured;
  measured.forward = times({1, 1, 2, 1});
  const Symptoms symptoms = find_symptoms(plan_of(4, 8), measured);
  EXPECT_NEAR(symptoms.unit, 1.25, 1e-9);
  EXPECT_EQ(symptoms.costs.backward[0], Time::from_units(2.5));
  EXPECT_THAT(keys_of(symptoms), testing::Contains("forward"));
}

TEST(Symptoms, SplitBackwardsAreComparedByTheirHalves) {
  PlanConfig config;
  config.stages = 4;
  config.microbatches = 8;
  config.schedule = ScheduleName::zb_h1;
  config.costs.backward = times({2});
  MeasuredTimes measured;
  measured.forward = times({1});
  measured.input_gradient = times({1.4});
  measured.weight_gradient = times({0.6});
  const Symptoms symptoms = find_symptoms(derive_plan(config), measured);
  EXPECT_THAT(keys_of(symptoms), ElementsAre("input_grad", "weight_grad"));
}

TEST(Symptoms, ListsThatDoNotFitAreRefused) {
  const auto error_of = [](const MeasuredTimes& measured) -> std::string {
    try {
      find_symptoms(plan_of(4, 8), measured);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  MeasuredTimes measured;
  EXPECT_THAT(error_of(measured), HasSubstr("found neither"));
  measured.forward = times({1, 2});
  EXPECT_THAT(error_of(measured),
              HasSubstr("measured forward = [1, 2]: expected one number, or one "
                        "for each of the 4"));
  measured.forward = times({-1});
  EXPECT_THAT(error_of(measured), HasSubstr("0 or more"));
}

}  // namespace
}  // namespace sluice
