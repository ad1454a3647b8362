// The replayer: a recorded run comes out the same on any machine, whether it succeeded, failed or was stuck.

#include <functional>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/schedule_replay.hpp>

#include "recording_support.hpp"
#include "replayed_runs.hpp"

namespace sluice::replay {
namespace {

using test::adaptive_run;
using test::Machine;
using test::machines;
using test::record_toy;
using test::replay_toy;
using test::TempFolder;
using test::toy_config;
using test::ToyRun;
using testing::HasSubstr;

TEST(Replayer, ARunReplaysOnAnyMachine) {
  int unplanned = 0;
  for (const Machine& made_on : machines) {
    const TempFolder folder;
    const ToyRun run = adaptive_run();
    const auto recorded = record_toy(run, folder.file("a"), made_on);
    const auto plan = derive_plan(run.config);
    unplanned += test::sequences(recorded.logs[0], 4) != plan.order;
    const auto recording = Recording::open(folder.file("a"));
    for (const Machine& replayed_on : machines) {
      const auto [replayer, outcome] = replay_toy(run, recording, replayed_on);
      EXPECT_EQ(replayer->verdict(), Verdict::same)
          << (replayer->divergence() ? replayer->divergence()->message : "");
      EXPECT_EQ(outcome.weights, recorded.weights);
      ASSERT_EQ(outcome.logs.size(), 2U);
      EXPECT_TRUE(test::same_events(outcome.logs[1], recorded.logs[1]));
      EXPECT_EQ(replayer->actions(), 2 * 2 * 4 * 9);
      EXPECT_EQ(replayer->events(), 2 * (2 * 2 * 4 * 9 + 4));
      EXPECT_EQ(replayer->hashes(), 2 * (2 * 4 * 9 + 4));
    }
  }
  EXPECT_GT(unplanned, 0) << "no recording held a pick that was not planned";
}

/// A start that waited for a slot comes after the start that made room for it, in the recording, in the log
/// of the replay and whoever is slow.
TEST(Replayer, LimitedSlotsReplayOnAnyMachine) {
  struct Limit {
    int slots;
    int drain_depth;
    OrderMode order;
  };
  for (const Limit& limit : {Limit{1, 3, OrderMode::adaptive}, Limit{1, 3, OrderMode::fixed},
                             Limit{2, 6, OrderMode::adaptive}, Limit{0, 0, OrderMode::fixed}}) {
    ToyRun run = adaptive_run();
    run.config.order = limit.order;
    run.config.slots = limit.slots;
    run.config.drain_depth = limit.drain_depth;
    for (const Machine& made_on : machines) {
      const TempFolder folder;
      const auto recorded = record_toy(run, folder.file("a"), made_on);
      ASSERT_EQ(recorded.errors, std::vector<std::string>(2));
      const auto recording = Recording::open(folder.file("a"));
      EXPECT_EQ(recording->header().slots, limit.slots);
      EXPECT_TRUE(test::same_events(merge_events(recording->step(1).ranks), recorded.logs[1]));
      EXPECT_EQ(replay_schedule(recording).verdict, Verdict::same) << limit.slots;
      for (const Machine& replayed_on : machines) {
        const auto [replayer, outcome] = replay_toy(run, recording, replayed_on);
        EXPECT_EQ(replayer->verdict(), Verdict::same)
            << (replayer->divergence() ? replayer->divergence()->message : "");
        EXPECT_TRUE(test::same_events(outcome.logs.at(1), recorded.logs[1]));
      }
    }
  }
}

TEST(Replayer, SaysNothingOfWhatWasNotReplayed) {
  const TempFolder folder;
  const ToyRun run = adaptive_run(2, 4, 1);
  record_toy(run, folder.file("a"), {0, 0});
  const Replayer replayer(Recording::open(folder.file("a")), derive_plan(run.config));
  EXPECT_EQ(replayer.verdict(), Verdict::nothing_replayed);
  EXPECT_EQ(to_string(replayer.verdict()), "nothing-replayed");
}

TEST(Replayer, WithoutHashesOnlyTheScheduleIsCompared) {
  const TempFolder folder;
  ToyRun run = adaptive_run();
  record_toy(run, folder.file("a"), {2, 1}, nullptr, RecordingMode::full);
  run.weight = [](StageId) { return 0.25; };
  const auto replay = replay_toy(run, Recording::open(folder.file("a")), {0, 0});
  EXPECT_EQ(replay.replayer->verdict(), Verdict::same);
  EXPECT_EQ(replay.replayer->hashes(), 0);
}

/// Sees everything; asked nothing.
class Witness final : public Director {
 public:
  std::unique_ptr<RankDirector> for_rank(const Plan&, RankId, std::int64_t) override {
    class Rank final : public RankDirector {
     public:
      explicit Rank(std::atomic<int>& seen) : seen_(seen) {}
      std::size_t choose(const ChoicePoint&, std::span<const Option>) override {
        ADD_FAILURE() << "a replay asks its recording alone";
        return 0;
      }
      void observe(const Event&) override { ++seen_; }
      std::atomic<int>& seen_;
    };
    return std::make_unique<Rank>(seen);
  }
  void step_ended(const StepEnd&) override { ++steps; }

  std::atomic<int> seen{0};
  int steps = 0;
};

TEST(Replayer, ThePolicySeesEverythingAndIsNotAsked) {
  const TempFolder folder;
  const ToyRun run = adaptive_run();
  record_toy(run, folder.file("a"), {2, 1});
  auto witness = std::make_shared<Witness>();
  const auto replay = replay_toy(run, Recording::open(folder.file("a")), {2, 2}, witness);
  EXPECT_EQ(replay.replayer->verdict(), Verdict::same);
  EXPECT_EQ(witness->seen, replay.replayer->events());
  EXPECT_EQ(witness->steps, 2);
}

// --- failures ---

TEST(Replayer, AFailingRunFailsAgain) {
  for (const Machine& made_on : machines) {
    const TempFolder folder;
    ToyRun run = adaptive_run(4, 9, 3);
    std::atomic<int> entered{0};
    run.on_enter = [&entered](const Action& action) {
      if (to_string(action) == "2B1" && ++entered == 2) throw std::domain_error("a NaN");
    };
    const auto recorded = record_toy(run, folder.file("a"), made_on);
    EXPECT_EQ(recorded.errors[1], "stage 2, mb 1, B failed: a NaN");
    const auto recording = Recording::open(folder.file("a"));
    for (const Machine& replayed_on : machines) {
      entered = 0;
      const auto [replayer, outcome] = replay_toy(run, recording, replayed_on);
      EXPECT_EQ(outcome.errors, recorded.errors);
      EXPECT_EQ(replayer->verdict(), Verdict::same);  // the last step went well
      EXPECT_TRUE(test::same_events(outcome.logs[1], recorded.logs[1]));
      EXPECT_EQ(outcome.weights, recorded.weights);
    }
  }
}

TEST(Replayer, OfTwoFailuresTheRecordedOneComesFirst) {
  ToyRun run = adaptive_run(4, 9, 1);
  run.on_enter = [](const Action& action) {
    const std::string name = to_string(action);
    if (name == "0F3" || name == "2F0") throw std::domain_error("in " + name);
  };
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const TempFolder folder;
    const auto recorded = record_toy(run, folder.file("a"), {seed % 2 == 0 ? 0U : 2U, seed});
    seen.insert(recorded.errors[0]);
    const auto recording = Recording::open(folder.file("a"));
    for (const Machine& replayed_on : machines) {
      const auto [replayer, outcome] = replay_toy(run, recording, replayed_on);
      EXPECT_EQ(replayer->verdict(), Verdict::failed_as_recorded)
          << (replayer->divergence() ? replayer->divergence()->message : "");
      EXPECT_EQ(outcome.errors, recorded.errors);
      EXPECT_TRUE(test::same_events(outcome.logs[0], recorded.logs[0]));
    }
  }
  EXPECT_EQ(seen.size(), 2U) << "the seeds gave only one order of the failures";
}

TEST(Replayer, AnUpdateThatFailsFailsAgain) {
  const TempFolder folder;
  ToyRun run = adaptive_run(3, 4, 1);
  run.prepare_stage = [](test::ToyStage& stage, StageId id) {
    stage.fail_prepare = id == StageId(1);
  };
  record_toy(run, folder.file("a"), {2, 0});
  const auto replay = replay_toy(run, Recording::open(folder.file("a")), {0, 3});
  EXPECT_EQ(replay.replayer->verdict(), Verdict::failed_as_recorded);
}

TEST(Replayer, AShortInputIsShortAgain) {
  const TempFolder folder;
  ToyRun run = adaptive_run(3, 8, 1);
  run.available = 5;
  const auto recorded = record_toy(run, folder.file("a"), {2, 0});
  EXPECT_THAT(recorded.errors[0], HasSubstr("short input"));
  const auto recording = Recording::open(folder.file("a"));
  for (const Machine& replayed_on : machines) {
    const auto replay = replay_toy(run, recording, replayed_on);
    EXPECT_EQ(replay.replayer->verdict(), Verdict::failed_as_recorded);
    EXPECT_EQ(replay.outcome.errors, recorded.errors);
  }
  run.available = 8;
  const auto mended = replay_toy(run, recording, {0, 0});
  EXPECT_EQ(mended.replayer->verdict(), Verdict::diverged);
  EXPECT_EQ(mended.replayer->divergence()->kind, DivergenceClass::failure);
}

/// Follows the plan until a rank has run so many actions, then waits for ever.
class Quitter final : public Policy {
 public:
  explicit Quitter(int actions) : actions_(actions) {}
  std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override {
    class Rank final : public RankPolicy {
     public:
      Rank(std::unique_ptr<RankPolicy> plan, int actions)
          : plan_(std::move(plan)), left_(actions) {}
      std::optional<std::size_t> choose(const ReadyView& ready) override {
        return left_ > 0 ? plan_->choose(ready) : std::nullopt;
      }
      void observe(const Event& event) override {
        if (event.kind == Event::Kind::enter) --left_;
        plan_->observe(event);
      }
      std::unique_ptr<RankPolicy> plan_;
      int left_;
    };
    return std::make_unique<Rank>(FixedOrder().for_rank(plan, rank), actions_);
  }

 private:
  int actions_;
};

TEST(Replayer, AStuckRunEndsStuck) {
  for (const int actions : {0, 1, 5}) {
    const TempFolder folder;
    const ToyRun run = adaptive_run(3, 6, 1);
    const auto recorded =
        record_toy(run, folder.file("a"), {2, 1}, std::make_shared<Quitter>(actions));
    EXPECT_THAT(recorded.errors[0], HasSubstr("stuck"));
    const auto recording = Recording::open(folder.file("a"));
    for (const Machine& replayed_on : machines) {
      const auto replay = replay_toy(run, recording, replayed_on);
      EXPECT_EQ(replay.replayer->verdict(), Verdict::stuck_as_recorded)
          << (replay.replayer->divergence() ? replay.replayer->divergence()->message : "");
      EXPECT_EQ(replay.outcome.errors, recorded.errors);
    }
  }
}

TEST(Replayer, WhatCameFromOutsideIsSaidAgain) {
  // A policy that throws is outside the recording; its run replays to the same place.
  class Thrower final : public Policy {
   public:
    std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override {
      class Rank final : public RankPolicy {
       public:
        explicit Rank(std::unique_ptr<RankPolicy> plan) : plan_(std::move(plan)) {}
        std::optional<std::size_t> choose(const ReadyView& ready) override {
          if (++asked_ == 6) throw std::runtime_error("the power is off");
          return plan_->choose(ready);
        }
        void observe(const Event& event) override { plan_->observe(event); }
        std::unique_ptr<RankPolicy> plan_;
        int asked_ = 0;
      };
      return std::make_unique<Rank>(FixedOrder().for_rank(plan, rank));
    }
  };
  const TempFolder folder;
  const ToyRun run = adaptive_run(3, 6, 1);
  record_toy(run, folder.file("a"), {0, 1}, std::make_shared<Thrower>());
  const auto replay = replay_toy(run, Recording::open(folder.file("a")), {2, 0});
  EXPECT_EQ(replay.replayer->verdict(), Verdict::failed_as_recorded);
  EXPECT_THAT(replay.outcome.errors[0], HasSubstr("the power is off"));
}

// --- recordings that end early ---

TEST(Replayer, ARecordingThatEndsIsReplayedToItsEnd) {
  const TempFolder folder;
  const ToyRun run = adaptive_run(3, 40, 40);
  record_toy(run, folder.file("a"), {2, 4});
  const auto bytes = test::bytes_of(folder.file("a"));
  std::set<std::size_t> lengths;
  int inside = 0;
  for (std::size_t pages = 3; pages < bytes.size() / format::page_size; pages += 3) {
    const std::size_t size = pages * format::page_size + 100;
    const auto recording = Recording::parse({bytes.begin(), bytes.begin() + size}, "cut");
    lengths.insert(recording->steps());
    for (const Machine& replayed_on : {Machine{0, 1}, Machine{2, 1}}) {
      const auto [replayer, outcome] = replay_toy(run, recording, replayed_on);
      EXPECT_EQ(replayer->verdict(), Verdict::recording_ends)
          << (replayer->divergence() ? replayer->divergence()->message : "");
      EXPECT_EQ(replayer->steps(), recording->steps());
      // Unless nothing but the end of the step is missing, the step cannot be finished.
      if (recording->steps() > 0 && replayer->actions() % (3 * 2 * 40) != 0) {
        EXPECT_THAT(outcome.errors.back(), HasSubstr("the recording ends here"));
        ++inside;
      }
    }
  }
  EXPECT_GT(lengths.size(), 5U);
  EXPECT_GT(inside, 5);
}

TEST(Replayer, AStepBeyondTheRecordingDoesNotStart) {
  const TempFolder folder;
  ToyRun run = adaptive_run(2, 4, 2);
  record_toy(run, folder.file("a"), {0, 0});
  run.steps = 3;
  auto replayer =
      std::make_shared<Replayer>(Recording::open(folder.file("a")), derive_plan(run.config));
  const auto outcome = test::run_toy(run, replayer, {0, 0});
  EXPECT_THAT(outcome.errors[2], HasSubstr("the recording ends before step 2"));
  EXPECT_EQ(outcome.weights, test::toy_plain_loop(2, 4, 2));
  EXPECT_EQ(replayer->verdict(), Verdict::same);
}

TEST(Replayer, AnotherShapeIsRefused) {
  const TempFolder folder;
  record_toy(adaptive_run(3, 4, 1), folder.file("a"), {0, 0});
  const auto recording = Recording::open(folder.file("a"));
  EXPECT_THROW(Replayer(recording, derive_plan(toy_config(2, 4))), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::replay
