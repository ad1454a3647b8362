// The kit that users link: what it says of plans, live steps, logs and recordings that keep the law or break
// it, and what its one-line test prints.
#include <sluice/fuzz/holds.hpp>
#include <sluice/fuzz/property.hpp>

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <sluice/log.hpp>
#include <sluice/replay/recording.hpp>

#include "recorded_run.hpp"

namespace sluice::fuzz {
namespace {

using testing::HasSubstr;

PlanConfig config_of(int stages, int microbatches) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  return config;
}

TEST(Holds, EveryScheduleKeepsTheLaw) {
  for (const auto name :
       {ScheduleName::drain, ScheduleName::one_f_one_b, ScheduleName::gpipe,
        ScheduleName::eager_1f1b, ScheduleName::interleaved, ScheduleName::looped_bfs,
        ScheduleName::zb_h1, ScheduleName::zb_h2, ScheduleName::zb_v, ScheduleName::dualpipe_v}) {
    PlanConfig config = config_of(4, 8);
    config.schedule = name;
    EXPECT_EQ(holds(config), "") << to_string(name);
  }
}

TEST(Holds, APlanThatCannotBeIsRefusedInWords) {
  PlanConfig config = config_of(2, 2);
  config.custom = Schedule{static_order(2, 2, 1), one_stage_a_rank(2), {}};
  config.custom->order[1].pop_back();
  EXPECT_THAT(holds(config), HasSubstr("1B1"));
}

TEST(Holds, ATimelineThatBreaksTheLawIsNamed) {
  Plan plan = derive_plan(config_of(3, 4));
  plan.credits[0] = 2;
  EXPECT_THAT(holds(plan), HasSubstr("stage 0 holds 3 at 2, its credit is 2"));
}

TEST(Holds, OfALiveStep) {
  test::ToyRun run;
  run.config = test::toy_config(3, 5);
  const Plan plan = derive_plan(run.config);
  auto events = test::run_toy(run, nullptr, {}).logs.at(0);
  EXPECT_EQ(holds(plan, events), "");

  // The last stage's first two actions change places.
  std::vector<std::size_t> of_last;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].rank == RankId(2)) of_last.push_back(i);
  }
  std::swap(events[of_last[0]].action, events[of_last[2]].action);
  std::swap(events[of_last[1]].action, events[of_last[3]].action);
  EXPECT_NE(holds(plan, events), "");
  events.resize(events.size() / 2);
  EXPECT_THAT(holds_as_far_as_it_came(plan, events),
              HasSubstr("rank 2 runs 2B0 as number 0 of its actions; planned is 2F0"));
}

TEST(Holds, OfALog) {
  const Plan plan = derive_plan(config_of(2, 3));
  std::string log;
  for (const LogRecord& record : expected_log(plan.timeline)) log += to_line(record) + '\n';
  EXPECT_EQ(holds(plan, log), "");
  log.erase(log.find("phase=F"), 7).insert(log.find("event="), "phase=B ");
  EXPECT_NE(holds(plan, log), "");
}

TEST(Holds, OfARecording) {
  const std::string path = testing::TempDir() + "property_kit.slrec";
  std::remove(path.c_str());
  test::ToyRun run;
  run.config = test::toy_config(3, 5, OrderMode::adaptive);
  run.steps = 3;
  test::record_toy(run, path, {});
  const auto recording = replay::Recording::open(path);
  EXPECT_EQ(holds(derive_plan(run.config), *recording), "");
  Plan tighter = derive_plan(run.config);
  tighter.credits[0] = 1;
  EXPECT_THAT(holds(tighter, *recording), HasSubstr("step 0: "));
}

SLUICE_HOLDS_AT_ANY_SHAPE(OneForwardOneBackward, [](const Shape& shape) {
  PlanConfig config = config_of(shape.stages, shape.microbatches);
  config.costs = shape.costs();
  return config;
})

/// The report of a property that fails for more than two stages.
std::string report_of(const std::function<std::string(const Shape&)>& wrong) {
  testing::TestPartResultArray results;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    expect_at_any_shape(wrong);
  }
  return results.size() == 0 ? "" : results.GetTestPartResult(0).message();
}

TEST(Property, AFailureIsPrintedFirstThenSmallestThenTheCommand) {
  testing::internal::CaptureStderr();
  const std::string report =
      report_of([](const Shape& shape) { return shape.stages > 2 ? "too deep" : ""; });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("failed at -S "));
  EXPECT_EQ(said.find("failed at -S "), said.rfind("failed at -S "));  // not for every smaller one
  EXPECT_THAT(report, HasSubstr("-S 3 -M 1 -W 0"));
  EXPECT_THAT(report, HasSubstr("too deep"));
  EXPECT_THAT(report, HasSubstr("this case alone: RC_PARAMS='reproduce="));
  EXPECT_THAT(report, HasSubstr("--gtest_filter=Property.AFailureIsPrintedFirstThenSmallest"));
  EXPECT_EQ(report.find("not deterministic"), std::string::npos);
}

TEST(Property, WhatDoesNotFailAgainIsCalledNotDeterministic) {
  int asked = 0;
  const std::string report =
      report_of([&asked](const Shape&) { return ++asked == 5 ? "once" : ""; });
  EXPECT_THAT(report, HasSubstr("run once more, this case does not fail"));
}

}  // namespace
}  // namespace sluice::fuzz
