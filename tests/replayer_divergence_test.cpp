// The replayer: what is not as recorded is found and named, on any machine at the same place.

#include <functional>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recording_support.hpp"
#include "replayed_runs.hpp"
#include "waits_for_ever.hpp"

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

TEST(ReplayerDivergence, AChangedWeightIsATensorDifferenceThere) {
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

TEST(ReplayerDivergence, SeqGoesOnOverSteps) {
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

TEST(ReplayerDivergence, ADifferenceInTheUpdateIsAStateDifference) {
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

TEST(ReplayerDivergence, AnImpossibleOrderIsAnActionDifferenceThere) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(2, 3);
  test::write_impossible_order(run, folder.file("a"));
  const auto d = divergence_of(run, Recording::open(folder.file("a")));
  EXPECT_EQ(d.kind, DivergenceClass::action);
  EXPECT_EQ(d.rank, RankId(1));
  EXPECT_EQ(d.stage, StageId(1));
  EXPECT_EQ(d.mb, MicrobatchId(1));
  EXPECT_EQ(d.phase, Phase::backward);
  EXPECT_EQ(d.recorded, "enter 1B1");
  EXPECT_EQ(d.found, "never possible; ready: 1F1 1F2");
}

TEST(ReplayerDivergence, MoreMicrobatchesAreACountDifference) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(2, 4);
  record_toy(run, folder.file("a"), {0, 0}, nullptr, RecordingMode::full);
  run.config = toy_config(2, 6);
  const auto d = divergence_of(run, Recording::open(folder.file("a")));
  EXPECT_EQ(d.kind, DivergenceClass::count);
  EXPECT_THAT(d.found, HasSubstr("more actions to run"));
}

TEST(ReplayerDivergence, FewerMicrobatchesAreAnActionDifference) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(2, 6);
  record_toy(run, folder.file("a"), {0, 0}, nullptr, RecordingMode::full);
  run.config = toy_config(2, 4);
  const auto d = divergence_of(run, Recording::open(folder.file("a")));
  EXPECT_EQ(d.recorded, "enter 0F4");
}

TEST(ReplayerDivergence, AFailureThatIsNotRecordedIsFound) {
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

TEST(ReplayerDivergence, ARecordedFailureThatDoesNotHappenIsFound) {
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

TEST(ReplayerDivergence, AStuckStepIsTheSameWithTheSameWaitGraphAlone) {
  const TempFolder folder;
  ToyRun run = adaptive_run(3, 6, 1);
  record_toy(run, folder.file("a"), {2, 1}, std::make_shared<test::WaitsForEver>());
  run.config.drain_depth = 5;  // more credits, of which the wait graph tells
  const auto d = divergence_of(run, Recording::open(folder.file("a")));
  EXPECT_EQ(d.kind, DivergenceClass::failure);
  EXPECT_THAT(d.recorded, HasSubstr("stuck: "));
  EXPECT_THAT(d.found, HasSubstr("stuck: "));
}

TEST(ReplayerDivergence, AnUpdateThatFailsOnlyInTheReplayIsFound) {
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

TEST(ReplayerDivergence, WhatAStepCameToIsCompared) {
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

TEST(ReplayerDivergence, AfterADivergenceNoStepStarts) {
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

}  // namespace
}  // namespace sluice::replay
