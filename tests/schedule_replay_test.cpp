// A recording's order replays without the program that was recorded: stubs for stages, on one thread.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/recorded_plan.hpp>
#include <sluice/replay/schedule_replay.hpp>

#include "recorded_run.hpp"
#include "recording_support.hpp"
#include "replayed_runs.hpp"
#include "waits_for_ever.hpp"

namespace sluice::replay {
namespace {

using test::adaptive_run;
using test::Machine;
using test::record_toy;
using test::TempFolder;
using test::toy_config;
using test::ToyRun;

struct Recorded {
  std::shared_ptr<const Recording> recording;
  test::ToyOutcome outcome;
};

Recorded recorded(const ToyRun& run, Machine machine = {2, 6},
                  std::shared_ptr<Policy> policy = nullptr) {
  const TempFolder folder;
  Recorded result;
  result.outcome = record_toy(run, folder.file("a"), machine, std::move(policy));
  result.recording = Recording::open(folder.file("a"));
  return result;
}

TEST(ScheduleReplay, FollowsEveryRecordedAction) {
  for (const Machine& machine : {Machine{0, 3}, Machine{2, 1}, Machine{4, 4}}) {
    const auto [recording, outcome] = recorded(adaptive_run(4, 9, 3), machine);
    const ScheduleReplay replay = replay_schedule(recording);
    EXPECT_EQ(replay.verdict, Verdict::same)
        << (replay.divergence ? replay.divergence->message : "");
    EXPECT_EQ(replay.steps, 3U);
    EXPECT_EQ(replay.actions, 3 * 2 * 4 * 9);
    EXPECT_EQ(replay.events, 3 * (2 * 2 * 4 * 9 + 4));
  }
}

TEST(ScheduleReplay, EverySchedule) {
  for (const ScheduleName name :
       {ScheduleName::gpipe, ScheduleName::interleaved, ScheduleName::looped_bfs,
        ScheduleName::zb_h1, ScheduleName::zb_h2, ScheduleName::zb_v, ScheduleName::dualpipe_v}) {
    ToyRun run;
    run.config = toy_config(4, 8);
    run.config.schedule = name;
    run.steps = 2;
    const auto [recording, outcome] = recorded(run);
    const ScheduleReplay replay = replay_schedule(recording);
    EXPECT_EQ(replay.verdict, Verdict::same)
        << to_string(name) << (replay.divergence ? replay.divergence->message : "");
    EXPECT_EQ(replay.steps, 2U);
  }
}

TEST(ScheduleReplay, MThatDiffersFromStepToStep) {
  ToyRun run = adaptive_run(4, 9, 4);
  run.microbatches = [](int step) { return step % 2 == 0 ? 9 : 3 + step; };
  const auto [recording, outcome] = recorded(run);
  const ScheduleReplay replay = replay_schedule(recording);
  EXPECT_EQ(replay.verdict, Verdict::same) << (replay.divergence ? replay.divergence->message : "");
  EXPECT_EQ(replay.actions, 2 * 4 * (9 + 4 + 9 + 6));
}

TEST(ScheduleReplay, FailsAsRecordedWithTheRecordedText) {
  ToyRun throwing = adaptive_run(4, 9, 2);
  throwing.on_enter = [](const Action& action) {
    if (to_string(action) == "2B3") throw std::domain_error("a NaN");
  };
  ToyRun no_update = adaptive_run(4, 9, 2);
  no_update.prepare_stage = [](test::ToyStage& stage, StageId id) {
    stage.fail_prepare = id == StageId(1);
  };
  ToyRun short_input = adaptive_run(4, 9, 2);
  short_input.available = 5;
  for (const ToyRun& run : {throwing, no_update, short_input}) {
    const auto [recording, outcome] = recorded(run);
    const ScheduleReplay replay = replay_schedule(recording);
    EXPECT_EQ(replay.verdict, Verdict::failed_as_recorded)
        << (replay.divergence ? replay.divergence->message : "");
    EXPECT_EQ(replay.error, outcome.errors.back());
    EXPECT_EQ(replay.steps, 2U);
  }
}

TEST(ScheduleReplay, StuckAsRecorded) {
  const auto [recording, outcome] =
      recorded(adaptive_run(4, 9, 1), {2, 1}, std::make_shared<test::WaitsForEver>());
  const ScheduleReplay replay = replay_schedule(recording);
  EXPECT_EQ(replay.verdict, Verdict::stuck_as_recorded);
}

TEST(ScheduleReplay, EndsWhereTheRecordingEnds) {
  const TempFolder folder;
  record_toy(adaptive_run(4, 9, 40), folder.file("a"), {2, 4});
  const auto bytes = test::bytes_of(folder.file("a"));
  for (std::size_t size = 3 * format::page_size; size < bytes.size();
       size += 2 * format::page_size) {
    const auto recording = Recording::parse({bytes.begin(), bytes.begin() + size}, "cut");
    const ScheduleReplay replay = replay_schedule(recording);
    EXPECT_EQ(replay.verdict, Verdict::recording_ends)
        << (replay.divergence ? replay.divergence->message : "");
    EXPECT_EQ(replay.steps, recorded_plan(*recording) ? recording->steps() : 0);
  }
}

TEST(ScheduleReplay, ARingWhoseStartHasFallenOff) {
  const auto recording = Recording::open(SLUICE_SOURCE_DIR "/tests/data/recordings/1.1-ring.slrec");
  ASSERT_TRUE(recording->begins_late());
  const ScheduleReplay replay = replay_schedule(recording);
  EXPECT_EQ(replay.verdict, Verdict::same) << (replay.divergence ? replay.divergence->message : "");
  EXPECT_EQ(replay.steps, recording->steps());
  EXPECT_GT(replay.actions, 0);
}

TEST(ScheduleReplay, StopsAtAPoint) {
  const auto [recording, outcome] = recorded(adaptive_run(4, 9, 3));
  const auto point = point_of(*recording, std::nullopt, 200);
  const ScheduleReplay replay = replay_schedule(recording, point);
  EXPECT_EQ(replay.verdict, Verdict::same);
  EXPECT_EQ(replay.steps, 2U);
}

TEST(ScheduleReplay, AnImpossibleOrderIsADivergence) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(2, 3);
  test::write_impossible_order(run, folder.file("a"));
  const ScheduleReplay replay = replay_schedule(Recording::open(folder.file("a")));
  EXPECT_EQ(replay.verdict, Verdict::diverged);
  ASSERT_TRUE(replay.divergence);
  EXPECT_EQ(replay.divergence->recorded, "enter 1B1");
}

TEST(RecordedPlan, HasTheRecordedOrder) {
  const ToyRun run = adaptive_run(4, 9, 3);
  const auto [recording, outcome] = recorded(run);
  const auto plan = recorded_plan(*recording);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->order, derive_plan(run.config).order);
  EXPECT_EQ(plan->microbatches, 9);
  EXPECT_EQ(plan->stages, 4);
}

}  // namespace
}  // namespace sluice::replay
