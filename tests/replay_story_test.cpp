// The whole story: a run that fails only under a rare order is recorded live on a pool, replayed ten times
// with the same failure, stopped one action before it, and shown.
//
// The run is one of a program's own, so this is also how the library replays what is not sluice train.

#include <atomic>
#include <map>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/schedule_replay.hpp>

#include "command.hpp"
#include "recorded_run.hpp"
#include "recording_support.hpp"
#include "waits_for_ever.hpp"

namespace sluice::replay {
namespace {

using test::Machine;
using test::TempFolder;
using test::ToyRun;
using testing::AllOf;
using testing::HasSubstr;

/// Stage 1 cannot take two backwards in a row while forwards are still to come, which no plan of this
/// shape asks for: it happens when the forward that was to come between them is late.
class RareBug {
 public:
  void on_enter(const Action& action) {
    if (action.stage != StageId(1)) return;
    const std::scoped_lock lock(mutex_);
    if (action.phase == Phase::forward) {
      if (action.mb == MicrobatchId(0)) backwards_in_a_row_ = 0;
      forwards_ = action.mb.value + 1;
      backwards_in_a_row_ = 0;
      return;
    }
    if (++backwards_in_a_row_ < 2 || forwards_ > 28 || action.mb.value < 8) return;
    ++hits;
    throw std::domain_error("two backwards in a row have freed the same buffer");
  }

  std::atomic<int> hits{0};

 private:
  std::mutex mutex_;
  int forwards_ = 0;
  int backwards_in_a_row_ = 0;
};

ToyRun buggy_run(const std::shared_ptr<RareBug>& bug, std::uint64_t seed) {
  ToyRun run;
  run.config = test::toy_config(4, 32, OrderMode::adaptive);
  run.on_enter = [bug](const Action& action) { bug->on_enter(action); };
  // Mostly even; stage 0 is late now and then.
  run.yields = [seed](const Action& action) {
    KeyedRandom random(seed, 0, to_string(action), 0, "yields");
    const bool late = action.stage == StageId(0) && random.below(16) == 0;
    return late ? 30 : 1 + static_cast<int>(random.below(2));
  };
  return run;
}

TEST(ReplayStory, ARareFailureIsRecordedReplayedStoppedBeforeAndShown) {
  const TempFolder folder;
  const std::string file = folder.file("night.slrec");
  const auto bug = std::make_shared<RareBug>();

  // Night after night, until it happens.
  std::string error;
  std::uint64_t nights = 0;
  for (; error.empty(); ++nights) {
    ASSERT_LT(nights, 5000U) << "the planted order never came";
    std::filesystem::remove(file);
    error = test::record_toy(buggy_run(bug, nights), file, Machine{2, nights}).errors[0];
  }
  RecordProperty("nights", static_cast<int>(nights));
  ASSERT_THAT(error, HasSubstr("two backwards in a row have freed the same buffer"));
  const auto recording = Recording::open(file);

  // In the morning, on any machine; how long its actions take there plays no part.
  std::optional<Action> failed;
  for (const Event& event : merge_events(recording->step(0).ranks)) {
    if (event.kind == Event::Kind::failed) failed = event.action;
  }
  ASSERT_TRUE(failed);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const Machine here{static_cast<unsigned>(i % 4), i};
    bug->hits = 0;
    const auto [replayer, outcome] = test::replay_toy(buggy_run(bug, 1000 + i), recording, here);
    EXPECT_EQ(replayer->verdict(), Verdict::failed_as_recorded)
        << (replayer->divergence() ? replayer->divergence()->message : "");
    EXPECT_EQ(outcome.errors[0], error);
    EXPECT_EQ(bug->hits, 1);
  }

  // One action before it.
  ReplayOptions options;
  options.until = point_of(*recording, 0, *failed);
  bug->hits = 0;
  auto replayer = std::make_shared<Replayer>(recording, derive_plan(buggy_run(bug, 0).config),
                                             nullptr, options);
  const auto stopped = test::run_toy(buggy_run(bug, 0), replayer, Machine{1, 0});
  EXPECT_EQ(replayer->verdict(), Verdict::same);
  EXPECT_TRUE(replayer->reached());
  EXPECT_EQ(bug->hits, 0);
  EXPECT_THAT(stopped.errors[0], HasSubstr("stopped before " + to_string(*options.until)));

  // And shown: what that rank did, and what it did although something else was planned.
  const auto shown = test::sluice(
      fmt::format("show {} --seq {}..{}", file, options.until->seq - 5, options.until->seq));
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr(fmt::format("seq {:<14}enter {}\n", options.until->seq,
                                               sluice::to_string(*failed))));
  EXPECT_THAT(test::sluice("show " + file).out, AllOf(HasSubstr(error), HasSubstr("although")));
  const auto ordered = test::sluice("replay --json --schedule-only " + file);
  EXPECT_EQ(ordered.code, 1) << ordered.err;
  EXPECT_EQ(ordered.json()["verdict"], "failed-as-recorded");
}

TEST(ReplayStory, AStuckRunEndsStuckAgainEndToEnd) {
  const TempFolder folder;
  const std::string file = folder.file("stuck.slrec");
  ToyRun run;
  run.config = test::toy_config(3, 6);
  const auto recorded = test::record_toy(run, file, {4, 1}, std::make_shared<test::WaitsForEver>());
  ASSERT_THAT(recorded.errors[0], HasSubstr("stuck"));
  const auto recording = Recording::open(file);
  for (const unsigned threads : {0U, 1U, 4U}) {
    const auto [replayer, outcome] = test::replay_toy(run, recording, {threads, 9});
    EXPECT_EQ(replayer->verdict(), Verdict::stuck_as_recorded);
    EXPECT_EQ(outcome.errors, recorded.errors);  // with the same wait graph
  }
  const auto replayed = test::sluice("replay --schedule-only --json " + file);
  EXPECT_EQ(replayed.code, 1);
  EXPECT_EQ(replayed.json()["verdict"], "stuck-as-recorded");
  EXPECT_THAT(test::sluice("replay --schedule-only " + file).out, HasSubstr("stuck: every rank"));
}

}  // namespace
}  // namespace sluice::replay
