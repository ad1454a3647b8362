// The replayer: a recorded run comes out the same on any machine, and what differs is found and named.

#include <functional>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using testing::HasSubstr;

const std::vector<Machine> machines{{0, 0}, {0, 11}, {1, 3}, {2, 5}, {4, 9}};

ToyRun adaptive_run(int stages = 4, int microbatches = 9, int steps = 2) {
  ToyRun run;
  run.config = toy_config(stages, microbatches, OrderMode::adaptive);
  run.steps = steps;
  return run;
}

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

TEST(Replayer, OfTwoFailuresInOneStepTheRecordedOneComesFirst) {
  ToyRun run;
  run.config = toy_config(2, 3);
  run.on_enter = [](const Action& action) {
    const std::string name = to_string(action);
    if (name == "0F1" || name == "1F0") throw std::domain_error("planted");
  };
  for (const char* error :
       {"stage 0, mb 1, F failed: planted", "stage 1, mb 0, F failed: planted"}) {
    const TempFolder folder;
    {
      RecordingWriter writer(folder.file("a"), test::small_header(2));
      const Plan plan = derive_plan(run.config);
      for (int r = 0; r < 2; ++r) {
        auto& rank = writer.rank(RankId(r));
        test::append_order(rank, plan.order[static_cast<std::size_t>(r)], 2);
        rank.append(format::Kind::step, 0);
        for (int planned = r == 0 ? 3 : 1; planned > 0; --planned) rank.append_planned();
        rank.append(format::Kind::failed);
        rank.append(format::Kind::stopped);
        rank.append(format::Kind::aborted, static_cast<std::uint64_t>(r));
        rank.append(format::Kind::done);
      }
      const std::string fields = std::string(1, '\0') + error;
      writer.run().append_bytes(format::Kind::step_ended, std::as_bytes(std::span(fields)));
      writer.close();
    }
    const auto recording = Recording::open(folder.file("a"));
    for (const Machine& machine : machines) {
      const auto [replayer, outcome] = replay_toy(run, recording, machine);
      EXPECT_EQ(replayer->verdict(), Verdict::failed_as_recorded);
      EXPECT_EQ(outcome.errors[0], error);
    }
  }
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

// --- divergences ---

/// Replays on every machine; the divergence must be the same on all.
Divergence divergence_of(const ToyRun& run, const std::shared_ptr<const Recording>& recording) {
  std::optional<Divergence> first;
  for (const Machine& machine : machines) {
    const auto [replayer, outcome] = replay_toy(run, recording, machine);
    EXPECT_EQ(replayer->verdict(), Verdict::diverged);
    if (!replayer->divergence()) return {};
    if (!first) first = replayer->divergence();
    EXPECT_EQ(replayer->divergence()->message, first->message) << machine.threads;
  }
  return *first;
}

TEST(Replayer, AChangedWeightIsATensorDifferenceThere) {
  const TempFolder folder;
  ToyRun run = adaptive_run();
  const auto recorded = record_toy(run, folder.file("a"), {2, 6});
  run.weight = [](StageId stage) {
    return test::toy_weight(stage) + (stage.value == 2 ? 1e-9 : 0);
  };
  const auto d = divergence_of(run, Recording::open(folder.file("a")));
  EXPECT_EQ(d.kind, DivergenceClass::tensor);
  EXPECT_EQ(d.step, 0);
  EXPECT_EQ(d.rank, RankId(2));
  EXPECT_EQ(d.stage, StageId(2));
  EXPECT_EQ(d.mb, MicrobatchId(0));
  EXPECT_EQ(d.phase, Phase::forward);
  EXPECT_EQ(d.local, 1);
  EXPECT_THAT(d.recorded, HasSubstr("exit 2F0 with output"));
  EXPECT_THAT(d.found, HasSubstr("exit 2F0 with output"));
  EXPECT_NE(d.recorded, d.found);
  // The seq is that of the run's own log.
  std::int64_t seq = 0;
  std::int64_t expected = 0;
  for (const Event& event : recorded.logs[0]) {
    if (event.kind != Event::Kind::enter && event.kind != Event::Kind::exit) continue;
    ++seq;
    if (event.kind == Event::Kind::exit && to_string(event.action) == "2F0") expected = seq;
  }
  EXPECT_EQ(d.seq, expected);
  EXPECT_THAT(d.message, HasSubstr("last agreeing event"));
}

TEST(Replayer, SeqGoesOnOverSteps) {
  const TempFolder folder;
  ToyRun run = adaptive_run(3, 5, 3);
  record_toy(run, folder.file("a"), {0, 6});
  auto bytes = test::bytes_of(folder.file("a"));
  const auto step = Recording::open(folder.file("a"))->step(2);
  // The recorded output of 0F0, the first action of the third step.
  std::vector<std::byte> pattern(8);
  format::put(pattern.data(), step.ranks[0][1].hash);
  const auto at = std::search(bytes.begin(), bytes.end(), pattern.begin(), pattern.end());
  ASSERT_NE(at, bytes.end());
  *at ^= std::byte{1};
  test::reseal(bytes);
  const auto d = divergence_of(run, Recording::parse(bytes, "changed"));
  EXPECT_EQ(d.kind, DivergenceClass::tensor);
  EXPECT_EQ(d.step, 2);
  EXPECT_EQ(d.seq, 2 * 4 * 3 * 5 + 2);
  EXPECT_EQ(d.last_agreeing, "enter 0F0 (rank 0)");
}

TEST(Replayer, ADifferenceInTheUpdateIsAStateDifference) {
  const TempFolder folder;
  ToyRun run = adaptive_run(3, 4, 1);
  record_toy(run, folder.file("a"), {2, 6});
  auto bytes = test::bytes_of(folder.file("a"));
  // The recorded state of stage 1, changed as if the update had differed.
  const auto recording = Recording::open(folder.file("a"));
  const std::uint64_t state = recording->step(0).ranks[1].back().hash;
  std::vector<std::byte> pattern(8);
  format::put(pattern.data(), state);
  const auto at = std::search(bytes.begin(), bytes.end(), pattern.begin(), pattern.end());
  ASSERT_NE(at, bytes.end());
  *at ^= std::byte{1};
  test::reseal(bytes);
  const auto d = divergence_of(run, Recording::parse(bytes, "changed"));
  EXPECT_EQ(d.kind, DivergenceClass::state);
  EXPECT_EQ(d.stage, StageId(1));
  EXPECT_FALSE(d.mb);
}

TEST(Replayer, AnImpossibleOrderIsAnActionDifferenceThere) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(2, 3);
  {
    // Rank 1 was to run 1B1 before 1F1.
    RecordingWriter writer(folder.file("a"), test::small_header(2));
    const Plan plan = derive_plan(run.config);
    for (int r = 0; r < 2; ++r) {
      auto& rank = writer.rank(RankId(r));
      test::append_order(rank, plan.order[static_cast<std::size_t>(r)], 2);
      rank.append(format::Kind::step, 0);
      if (r == 0) {
        for (int i = 0; i < 12; ++i) rank.append_planned();
      } else {
        for (const char* action : {"1F0", "1B0", "1B1", "1F1", "1F2", "1B2"}) {
          rank.append(format::Kind::enter, code_of(*parse_action(action), 2));
          rank.append_planned();
        }
      }
      rank.append_bytes(format::Kind::committed, std::array{std::byte(r)});
      rank.append(format::Kind::done);
    }
    writer.run().append_bytes(format::Kind::step_ended, std::array{std::byte(0)});
    writer.close();
  }
  const auto d = divergence_of(run, Recording::open(folder.file("a")));
  EXPECT_EQ(d.kind, DivergenceClass::action);
  EXPECT_EQ(d.rank, RankId(1));
  EXPECT_EQ(d.stage, StageId(1));
  EXPECT_EQ(d.mb, MicrobatchId(1));
  EXPECT_EQ(d.phase, Phase::backward);
  EXPECT_EQ(d.recorded, "enter 1B1");
  EXPECT_EQ(d.found, "never possible; ready: 1F1 1F2");
}

TEST(Replayer, MoreMicrobatchesAreACountDifference) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(2, 4);
  record_toy(run, folder.file("a"), {0, 0}, nullptr, RecordingMode::full);
  run.config = toy_config(2, 6);
  const auto d = divergence_of(run, Recording::open(folder.file("a")));
  EXPECT_EQ(d.kind, DivergenceClass::count);
  EXPECT_THAT(d.found, HasSubstr("more actions to run"));
}

TEST(Replayer, FewerMicrobatchesAreAnActionDifference) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(2, 6);
  record_toy(run, folder.file("a"), {0, 0}, nullptr, RecordingMode::full);
  run.config = toy_config(2, 4);
  const auto d = divergence_of(run, Recording::open(folder.file("a")));
  EXPECT_EQ(d.recorded, "enter 0F4");
}

TEST(Replayer, AFailureThatIsNotRecordedIsFound) {
  const TempFolder folder;
  ToyRun run = adaptive_run(3, 5, 1);
  record_toy(run, folder.file("a"), {2, 0});
  run.on_enter = [](const Action& action) {
    if (to_string(action) == "1B2") throw std::domain_error("new");
  };
  const auto d = divergence_of(run, Recording::open(folder.file("a")));
  EXPECT_EQ(d.kind, DivergenceClass::failure);
  EXPECT_EQ(d.stage, StageId(1));
  EXPECT_EQ(d.mb, MicrobatchId(2));
  EXPECT_EQ(d.phase, Phase::backward);
  EXPECT_EQ(d.found, "1B2 failed");
}

TEST(Replayer, ARecordedFailureThatDoesNotHappenIsFound) {
  const TempFolder folder;
  ToyRun run = adaptive_run(3, 5, 1);
  run.on_enter = [](const Action& action) {
    if (to_string(action) == "1B2") throw std::domain_error("old");
  };
  record_toy(run, folder.file("a"), {2, 0});
  run.on_enter = nullptr;
  auto d = divergence_of(run, Recording::open(folder.file("a")));
  EXPECT_EQ(d.kind, DivergenceClass::failure);
  EXPECT_EQ(d.recorded, "1B2 failed");
  run.on_enter = [](const Action& action) {
    if (to_string(action) == "1B2") throw std::domain_error("other");
  };
  d = divergence_of(run, Recording::open(folder.file("a")));
  EXPECT_EQ(d.kind, DivergenceClass::failure);
  EXPECT_EQ(d.recorded, "stage 1, mb 2, B failed: old");
  EXPECT_EQ(d.found, "stage 1, mb 2, B failed: other");
  EXPECT_EQ(d.stage, StageId(1));
}

TEST(Replayer, AnUpdateThatFailsOnlyInTheReplayIsFound) {
  const TempFolder folder;
  ToyRun run = adaptive_run(3, 4, 1);
  record_toy(run, folder.file("a"), {2, 0});
  run.prepare_stage = [](test::ToyStage& stage, StageId id) {
    stage.fail_prepare = id == StageId(1);
  };
  const auto d = divergence_of(run, Recording::open(folder.file("a")));
  EXPECT_EQ(d.kind, DivergenceClass::failure);
  EXPECT_EQ(d.recorded, "the step succeeds");
  EXPECT_THAT(d.found, HasSubstr("stage 1: the update could not be prepared"));
}

/// Says more than its values do: how often it was asked, `factor` times.
class Talkative final : public Stage<test::Toy> {
 public:
  Talkative(std::unique_ptr<Stage<test::Toy>> stage, double factor)
      : stage_(std::move(stage)), factor_(factor) {}
  asio::awaitable<test::Toy> forward(ActionContext<test::Toy>& context, test::Toy x) override {
    if (context.target != nullptr) context.report("asked", factor_);
    return stage_->forward(context, x);
  }
  asio::awaitable<Gradients<test::Toy>> backward(ActionContext<test::Toy>& context,
                                                 test::Toy x) override {
    return stage_->backward(context, x);
  }
  void accumulate(MicrobatchId mb, test::Toy x) override { stage_->accumulate(mb, x); }
  void prepare_update(std::int64_t step) override { stage_->prepare_update(step); }
  void commit() noexcept override { stage_->commit(); }
  void abort() noexcept override { stage_->abort(); }

 private:
  std::unique_ptr<Stage<test::Toy>> stage_;
  double factor_;
};

TEST(Replayer, WhatAStepCameToIsCompared) {
  const TempFolder folder;
  ToyRun run = adaptive_run(3, 5, 2);
  const auto reporting = [](double factor) {
    const auto hooks = std::make_shared<test::ToyHooks>();
    return [factor, hooks](const StageContext& of) {
      return std::make_unique<Talkative>(
          std::make_unique<test::ToyStage>(test::toy_weight(of.stage), hooks), factor);
    };
  };
  run.factory = reporting(1);
  record_toy(run, folder.file("a"), {2, 0});
  const auto recording = Recording::open(folder.file("a"));
  EXPECT_EQ(replay_toy(run, recording, {0, 3}).replayer->verdict(), Verdict::same);
  run.factory = reporting(2);
  const auto d = divergence_of(run, recording);
  EXPECT_EQ(d.kind, DivergenceClass::result);
  EXPECT_EQ(d.step, 0);
  EXPECT_THAT(d.recorded, HasSubstr("loss "));
  EXPECT_NE(d.recorded, d.found);
}

TEST(Replayer, AfterADivergenceNoStepStarts) {
  const TempFolder folder;
  ToyRun run = adaptive_run(2, 4, 3);
  record_toy(run, folder.file("a"), {0, 0});
  run.weight = [](StageId) { return 0.3; };
  auto replayer =
      std::make_shared<Replayer>(Recording::open(folder.file("a")), derive_plan(run.config));
  const auto outcome = test::run_toy(run, replayer, {0, 0});
  EXPECT_THAT(outcome.errors[0], HasSubstr("diverged"));
  EXPECT_THAT(outcome.errors[1], HasSubstr("tensor differs at step 0"));
  EXPECT_EQ(outcome.weights, (std::vector<double>{0.3, 0.3}));
  EXPECT_FALSE(replayer->more());
}

TEST(Replayer, AnotherShapeIsRefused) {
  const TempFolder folder;
  record_toy(adaptive_run(3, 4, 1), folder.file("a"), {0, 0});
  const auto recording = Recording::open(folder.file("a"));
  EXPECT_THROW(Replayer(recording, derive_plan(toy_config(2, 4))), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::replay
