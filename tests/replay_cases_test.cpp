// Situations in which other replay tools failed their users, and what is right in them.

#include <cstdlib>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/identity.hpp>

#include "recorded_run.hpp"
#include "recording_support.hpp"

namespace sluice::replay {
namespace {

using test::Machine;
using test::record_toy;
using test::replay_toy;
using test::TempFolder;
using test::toy_config;
using test::ToyRun;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ToyRun adaptive_run(int stages = 4, int microbatches = 9, int steps = 2) {
  ToyRun run;
  run.config = toy_config(stages, microbatches, OrderMode::adaptive);
  run.steps = steps;
  return run;
}

TEST(ReplayCases, AHistoryThatEndsInsideAnActionIsNoDivergence) {
  const TempFolder folder;
  const std::string file = folder.file("a");
  std::vector<std::byte> bytes;
  ToyRun run = adaptive_run();
  run.on_enter = [&](const Action& action) {
    // As the file is when the process dies here: 2F3 has been entered and not left.
    if (to_string(action) == "2F3" && bytes.empty()) bytes = test::bytes_of(file);
  };
  record_toy(run, file, {0, 4});
  ASSERT_FALSE(bytes.empty());
  const auto recording = Recording::parse(bytes, "killed");
  const RecordedStep step = recording->step(0);
  ASSERT_EQ(step.ranks[2].back().kind, Event::Kind::enter);
  ASSERT_EQ(to_string(step.ranks[2].back().action), "2F3");
  run.on_enter = nullptr;
  for (const Machine& machine : {Machine{0, 0}, Machine{2, 3}}) {
    const auto [replayer, outcome] = replay_toy(run, recording, machine);
    EXPECT_EQ(replayer->verdict(), Verdict::recording_ends);
    EXPECT_FALSE(replayer->divergence());
    EXPECT_THAT(outcome.errors[0], HasSubstr("the recording ends here"));
    std::size_t events = 0;
    for (const auto& of_rank : step.ranks) events += of_rank.size();
    EXPECT_EQ(replayer->events(), static_cast<std::int64_t>(events));
  }
}

TEST(ReplayCases, AMatchingScheduleIsNotCalledDeterminism) {
  const TempFolder folder;
  ToyRun run = adaptive_run();
  record_toy(run, folder.file("a"), {2, 1}, nullptr, RecordingMode::full);
  // A random number that changes every value and no order.
  run.weight = [](StageId) { return 0.3 + 0.001 * (std::rand() % 100); };
  const auto [replayer, outcome] = replay_toy(run, Recording::open(folder.file("a")), {0, 0});
  EXPECT_EQ(replayer->verdict(), Verdict::same);
  EXPECT_THAT(
      coverage_of(*replayer),
      AllOf(HasSubstr("compared: the order of 144 actions"), HasSubstr("values not compared"),
            Not(HasSubstr("determinis")), Not(HasSubstr("bit by bit"))));
}

TEST(ReplayCases, AChangedPlanDivergesAndAHalvedFileIsNoRecording) {
  const TempFolder folder;
  const ToyRun run = adaptive_run();
  record_toy(run, folder.file("a"), {2, 1});
  const auto [replayer, outcome] =
      replay_toy(adaptive_run(4, 5), Recording::open(folder.file("a")), {0, 0});
  EXPECT_EQ(replayer->verdict(), Verdict::diverged);
  auto bytes = test::bytes_of(folder.file("a"));
  bytes.resize(format::page_size / 2);
  EXPECT_THROW(Recording::parse(bytes, "half"), RecordingError);
}

TEST(ReplayCases, OnlyTheRecordedChoicesCount) {
  const TempFolder folder;
  const ToyRun run = adaptive_run();
  const auto recorded = record_toy(run, folder.file("a"), {4, 1});
  const auto recording = Recording::open(folder.file("a"));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Machine other{static_cast<unsigned>(seed % 4), seed};
    const auto [replayer, outcome] = replay_toy(run, recording, other);
    EXPECT_EQ(replayer->verdict(), Verdict::same);
    for (std::size_t k = 0; k < 2; ++k) {
      EXPECT_TRUE(test::same_events(outcome.logs[k], recorded.logs[k]));
    }
    EXPECT_THAT(coverage_of(*replayer), HasSubstr("seeds, threads and policies here are ignored"));
  }
}

/// What each of the processes below runs: the same seed in another address space. Disabled, because by
/// itself it has no file to record into.
TEST(ReplayCases, DISABLED_RecordIntoFile) {
  record_toy(adaptive_run(16, 8, 1), std::getenv("SLUICE_RECORD_INTO"), {0, 5});
}

TEST(ReplayCases, TheReadySetHasOneOrderInEveryProcess) {
  const TempFolder folder;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::byte> first;
  for (int process = 0; process < 50; ++process) {
    const std::string file = folder.file(std::to_string(process));
    const std::string command =
        "SLUICE_RECORD_INTO='" + file + "' '" + self +
        "' --gtest_also_run_disabled_tests --gtest_filter=ReplayCases.DISABLED_RecordIntoFile "
        ">/dev/null 2>&1";
    ASSERT_EQ(std::system(command.c_str()), 0);
    if (process == 0) first = test::bytes_of(file);
    ASSERT_EQ(test::bytes_of(file), first) << "process " << process;
    std::filesystem::remove(file);
  }
  EXPECT_EQ(Recording::parse(first, "a")->step(0).ranks.size(), 16U);
}

TEST(ReplayCases, StagesInAnotherOrderAreRefusedBeforeTheRun) {
  const Identity recorded{{"stage 0", "A"}, {"stage 1", "B"}, {"stage 2", "C"}};
  const Identity found{{"stage 0", "A"}, {"stage 1", "C"}, {"stage 2", "B"}};
  EXPECT_EQ(to_string(compare_identities(recorded, found)),
            "stage 1: recorded B, here C\nstage 2: recorded C, here B\n");
}

TEST(ReplayCases, WhatIsReadPastTheRecordingIsNamedAndNotClaimed) {
  const TempFolder folder;
  const ToyRun run = adaptive_run();
  record_toy(run, folder.file("a"), {2, 1});
  const auto [replayer, outcome] = replay_toy(run, Recording::open(folder.file("a")), {0, 0});
  const std::vector<std::string> declared{"clock", "vocabulary.txt"};
  const std::string text = coverage_of(*replayer, declared);
  EXPECT_THAT(text, HasSubstr("not recorded, as declared: clock, vocabulary.txt\n"));
  EXPECT_THAT(text, HasSubstr("of what stages read in other ways nothing is known\n"));
  EXPECT_THAT(coverage_of(*replayer), Not(HasSubstr("as declared")));
}

}  // namespace
}  // namespace sluice::replay
