// Of several errors one is told, and it is the same one whoever was faster.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recorded_run.hpp"
#include "recording_support.hpp"

namespace sluice::test {
namespace {

using ::testing::HasSubstr;

/// Four stages of which two fail, in actions that can run at the same time.
/// Two stages that fail at once: each waits for the other's failing action, but not for ever.
ToyRun two_failures() {
  ToyRun run;
  run.config = toy_config(4, 6, OrderMode::adaptive);
  run.on_enter = [entered = std::make_shared<std::atomic<int>>(0)](const Action& action) {
    const std::string text = to_string(action);
    if (text != "0F3" && text != "2F1") return;
    ++*entered;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (*entered < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    throw std::domain_error("planted");
  };
  return run;
}

std::set<Action> failures_in(const std::vector<Event>& log) {
  std::set<Action> failed;
  for (const Event& event : log) {
    if (event.kind == Event::Kind::failed) failed.insert(event.action);
  }
  return failed;
}

TEST(FirstError, OfTwoFailingStagesTheFirstByCauseIsTold) {
  int both = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Machine machine{4, seed};
    const ToyRun run = two_failures();
    const auto director = std::make_shared<LiveDirector>(policy_for(derive_plan(run.config)));
    const ToyOutcome outcome = run_toy(run, director, machine);
    if (failures_in(outcome.logs[0]).size() < 2) continue;
    ++both;
    // The log is in causal order.
    std::string first;
    for (const Event& event : outcome.logs[0]) {
      if (event.kind == Event::Kind::failed && first.empty()) {
        first = fmt::format("stage {}, mb {}", event.action.stage.value, event.action.mb.value);
      }
    }
    EXPECT_THAT(outcome.errors[0], HasSubstr(first)) << "seed " << seed;
  }
  EXPECT_GT(both, 50) << "the two failures never met: the test shows nothing";
}

TEST(FirstError, OfTwoFailingUpdatesTheSameIsToldOnAnyMachine) {
  ToyRun run;
  run.config = toy_config(4, 6);
  run.prepare_stage = [](ToyStage& stage, StageId id) { stage.fail_prepare = id.value >= 2; };
  std::set<std::string> told;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto director = std::make_shared<LiveDirector>(policy_for(derive_plan(run.config)));
    told.insert(run_toy(run, director, {seed % 2 == 0 ? 0U : 4U, seed}).errors[0]);
  }
  EXPECT_EQ(told.size(), 1U);
}

TEST(FirstError, WithOneSlotAFailureThatLetTheOtherStartIsReplayed) {
  // 0F1 needs the slot that 1F0 leaves when it starts, and 1F0 fails when 0F1 has failed already.
  ToyRun run;
  run.config = toy_config(2, 2, OrderMode::adaptive);
  run.config.drain_depth = 1;
  run.config.slots = 1;
  run.on_enter = [](const Action& action) {
    const std::string text = to_string(action);
    if (text == "0F1" || text == "1F0") throw std::domain_error("planted");
  };
  const TempFolder folder;
  int both = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const ToyOutcome recorded = record_toy(run, folder.file("a"), {seed % 2 == 0 ? 0U : 4U, seed});
    both += failures_in(recorded.logs[0]).size() == 2;
    const auto recording = replay::Recording::open(folder.file("a"));
    std::filesystem::remove(folder.file("a"));
    const auto replay = replay_toy(run, recording, {0, seed + 1});
    ASSERT_EQ(replay.replayer->verdict(), replay::Verdict::failed_as_recorded)
        << replay.replayer->divergence()->message;
    EXPECT_EQ(replay.outcome.errors, recorded.errors);
  }
  EXPECT_GT(both, 0) << "the two failures never met: the test shows nothing";
}

}  // namespace
}  // namespace sluice::test
