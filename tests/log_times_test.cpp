#include <sluice/log_times.hpp>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/log.hpp>
#include <sluice/plan.hpp>

namespace sluice {
namespace {

using testing::Each;
using testing::IsEmpty;

Time units(double number) { return Time::from_units(number); }

/// The records that `plan` expects, its times in milliseconds from `start` on.
std::vector<LogLine> lines_of(const Plan& plan, std::int64_t step, Time start = {}) {
  std::vector<LogLine> lines;
  for (const TimedAction& timed : plan.timeline.actions) {
    for (const bool enter : {true, false}) {
      LogLine line;
      line.record.action = timed.action;
      line.record.event = enter ? LogRecord::Event::enter : LogRecord::Event::exit;
      line.record.step = step;
      line.record.t_ns = (start + (enter ? timed.start : timed.end)).millionths;
      lines.push_back(line);
    }
  }
  return lines;
}

Plan plan_of(ScheduleName schedule = ScheduleName::drain) {
  PlanConfig config;
  config.stages = 3;
  config.microbatches = 5;
  config.schedule = schedule;
  config.costs.forward = {units(1), units(2), units(3)};
  config.costs.backward = {units(2), units(4), units(6)};
  config.costs.link = {units(0.5), units(0.25)};
  return derive_plan(config);
}

TEST(LogTimes, AreThoseOfThePlanThatWroteTheLog) {
  const Plan plan = plan_of();
  LogTimes log;
  for (const LogLine& line : lines_of(plan, 0)) log.add(line);
  const MeasuredTimes times = log.times();
  EXPECT_EQ(times.forward, plan.costs.forward);
  EXPECT_EQ(times.backward, plan.costs.backward);
  EXPECT_THAT(times.input_gradient, IsEmpty());
  EXPECT_EQ(times.link, plan.costs.link);
  EXPECT_EQ(times.step, plan.timeline.makespan);
  EXPECT_EQ(log.actions(), 30);
  EXPECT_TRUE(log.clocks_agree());
  EXPECT_THAT(find_symptoms(plan, times).findings, IsEmpty());
}

TEST(LogTimes, SplitBackwardsHaveTheirOwn) {
  const Plan plan = plan_of(ScheduleName::zb_h1);
  LogTimes log;
  for (const LogLine& line : lines_of(plan, 0)) log.add(line);
  EXPECT_EQ(log.times().input_gradient, plan.costs.input_gradient);
  EXPECT_EQ(log.times().weight_gradient, plan.costs.weight_gradient);
  EXPECT_THAT(log.times().backward, IsEmpty());
}

TEST(LogTimes, TheOrderOfTheLinesDoesNotMatterWhereRecordsNameTheirStep) {
  const Plan plan = plan_of();
  LogTimes log;
  auto lines = lines_of(plan, 0);
  const auto more = lines_of(plan, 1, units(1000));
  lines.insert(lines.end(), more.begin(), more.end());
  // One file a stage, one after the other.
  for (int stage = 0; stage < 3; ++stage) {
    for (const LogLine& line : lines) {
      if (line.record.action.stage == StageId(stage)) log.add(line);
    }
  }
  EXPECT_EQ(log.times().forward, plan.costs.forward);
  EXPECT_EQ(log.times().link, plan.costs.link);
  EXPECT_EQ(log.times().step, plan.timeline.makespan);
}

TEST(LogTimes, AStepBeginsWithTheFirstActionWhereRecordsNameNone) {
  const Plan plan = plan_of();
  LogTimes log;
  for (int step = 0; step < 3; ++step) {
    for (LogLine line : lines_of(plan, 0, units(1000 * step))) {
      line.record.step.reset();
      log.add(line);
    }
  }
  EXPECT_EQ(log.times().step, plan.timeline.makespan);
}

TEST(LogTimes, AHiccupDoesNotCount) {
  const Plan plan = plan_of();
  LogTimes log;
  for (int step = 0; step < 3; ++step) {
    auto lines = lines_of(plan, step, units(1000 * step));
    if (step == 0) *lines.back().record.t_ns += units(500).millionths;
    for (const LogLine& line : lines) log.add(line);
  }
  EXPECT_EQ(log.times().backward, plan.costs.backward);
  EXPECT_EQ(log.times().step, plan.timeline.makespan);
}

TEST(LogTimes, ClocksThatDoNotAgreeMeasureNoLinks) {
  const Plan plan = plan_of();
  LogTimes log;
  for (LogLine line : lines_of(plan, 0)) {
    if (line.record.action.stage == StageId(2)) *line.record.t_ns -= units(100).millionths;
    log.add(line);
  }
  EXPECT_FALSE(log.clocks_agree());
  EXPECT_EQ(log.times().forward, plan.costs.forward);
  EXPECT_THAT(log.times().link, IsEmpty());
  EXPECT_FALSE(log.times().step);
}

TEST(LogTimes, RecordsWithoutAClockDoNotCount) {
  LogTimes log;
  LogLine line;
  line.record.action = Action(StageId(0), Phase::forward, MicrobatchId(0));
  log.add(line);
  EXPECT_EQ(log.untimed(), 1);
  EXPECT_EQ(log.actions(), 0);
  EXPECT_THAT(log.times().forward, IsEmpty());
}

}  // namespace
}  // namespace sluice
