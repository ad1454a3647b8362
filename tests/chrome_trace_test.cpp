#include <sluice/chrome_trace.hpp>

#include <map>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sluice/plan.hpp>

namespace sluice {
namespace {

Track track_of(const Plan& plan) {
  Track track;
  track.heading = "planned \"here\"";
  track.actions = plan.timeline.actions;
  track.stages = plan.stages;
  return track;
}

TEST(ChromeTrace, EveryActionIsASliceOfItsRank) {
  PlanConfig config;
  config.stages = 8;
  config.microbatches = 8;
  config.schedule = ScheduleName::interleaved;
  config.costs.forward = {Time::from_units(1.5)};
  const Plan plan = derive_plan(config);
  const auto trace = nlohmann::json::parse(chrome_trace({track_of(plan)}));
  std::map<std::string, nlohmann::json> slices;
  int ranks = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") slices[event["name"]] = event;
    if (event["name"] == "process_name") {
      EXPECT_EQ(event["args"]["name"], "planned \"here\"");
    }
    if (event["name"] == "thread_name") ++ranks;
  }
  EXPECT_EQ(ranks, 4);
  ASSERT_EQ(slices.size(), plan.timeline.actions.size());
  for (const TimedAction& timed : plan.timeline.actions) {
    const auto& slice = slices[to_string(timed.action)];
    EXPECT_EQ(slice["ts"], timed.start.units() * 1000);
    EXPECT_EQ(slice["dur"], (timed.end - timed.start).units() * 1000);
    EXPECT_EQ(slice["tid"], timed.rank.value);
    EXPECT_EQ(slice["args"]["stage"], timed.action.stage.value);
    EXPECT_EQ(slice["args"]["mb"], timed.action.mb.value);
  }
}

TEST(ChromeTrace, TracksAreProcessesAndMarksAreInstants) {
  PlanConfig config;
  config.stages = 2;
  config.microbatches = 2;
  const Plan plan = derive_plan(config);
  Track marked = track_of(plan);
  marked.mark = Mark{StageId(1), Time::from_units(2), "here"};
  const auto trace = nlohmann::json::parse(chrome_trace({track_of(plan), marked}));
  int second = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["pid"] == 1 && event["ph"] == "X") ++second;
    if (event["ph"] != "i") continue;
    EXPECT_EQ(event["ts"], 2000);
    EXPECT_EQ(event["pid"], 1);
  }
  EXPECT_EQ(second, 8);
}

TEST(ChromeTrace, NothingIsAnEmptyTrace) {
  EXPECT_TRUE(nlohmann::json::parse(chrome_trace({}))["traceEvents"].empty());
}

}  // namespace
}  // namespace sluice
