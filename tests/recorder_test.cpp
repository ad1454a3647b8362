// The recorder: what is in the file is what the run's own log says, and recording changes nothing.

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recorded_run.hpp"
#include "recording_support.hpp"

namespace sluice::replay {
namespace {

using test::Machine;
using test::record_toy;
using test::run_toy;
using test::TempFolder;
using test::toy_config;
using test::ToyRun;
using testing::Each;
using testing::HasSubstr;

std::vector<Event> merged(const RecordedStep& step) { return merge_events(step.ranks); }

TEST(Recorder, HoldsWhatTheLogSays) {
  for (const OrderMode order : {OrderMode::fixed, OrderMode::adaptive}) {
    for (const unsigned threads : {0U, 1U, 2U, 4U}) {
      const TempFolder folder;
      ToyRun run;
      run.config = toy_config(4, 9, order);
      run.steps = 3;
      const auto outcome = record_toy(run, folder.file("a"), {threads, threads});
      const auto recording = Recording::open(folder.file("a"));
      ASSERT_EQ(recording->steps(), 3U);
      EXPECT_TRUE(recording->closed());
      std::int64_t seq = 1;
      for (std::size_t k = 0; k < 3; ++k) {
        const auto step = recording->step(k);
        EXPECT_TRUE(test::same_events(merged(step), outcome.logs[k])) << threads << ' ' << k;
        EXPECT_EQ(step.first_seq, seq);
        seq += 4 * 4 * 9;
      }
    }
  }
}

TEST(Recorder, DoesNotChangeTheRun) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(4, 9, OrderMode::adaptive);
  run.steps = 3;
  const auto recorded = record_toy(run, folder.file("a"), {0, 7});
  const auto plain = run_toy(run, nullptr, {0, 7});
  EXPECT_EQ(recorded.weights, plain.weights);
  EXPECT_EQ(test::sequences(recorded.logs[2], 4), test::sequences(plain.logs[2], 4));
  EXPECT_EQ(plain.weights, test::toy_plain_loop(4, 9, 3));
}

TEST(Recorder, ASecondPipelineIsRefusedAndTheRecordingOfTheFirstStands) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(2, 4);
  const auto recorder = std::make_shared<Recorder>(
      folder.file("a"), derive_plan(run.config),
      std::make_shared<LiveDirector>(policy_for(derive_plan(run.config))));
  EXPECT_EQ(run_toy(run, recorder, {0, 1}).errors, std::vector<std::string>{""});
  EXPECT_THAT(run_toy(run, recorder, {0, 1}).errors.at(0),
              HasSubstr("expects step 1, was given step 0"));
  recorder->close();
  EXPECT_EQ(Recording::open(folder.file("a"))->steps(), 1U);
}

TEST(Recorder, FullModeCostsFewBytes) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(2, 64);
  run.steps = 200;
  record_toy(run, folder.file("a"), {0, 0}, nullptr, RecordingMode::full);
  const auto recording = Recording::open(folder.file("a"));
  ASSERT_EQ(recording->steps(), 200U);
  EXPECT_EQ(recording->step(199).ranks[1].size(), 2U * 2 * 64 + 1);
  EXPECT_FALSE(recording->step(0).ranks[0][1].hashed);
  // Header, three streams, and no more than a quarter of a byte an action.
  const double actions = 2.0 * 2 * 64 * 200;
  EXPECT_LT(std::filesystem::file_size(folder.file("a")), 6 * 4096 + actions / 4);
}

TEST(Recorder, TheSameSeedGivesTheSameBytes) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(3, 8, OrderMode::adaptive);
  run.steps = 2;
  record_toy(run, folder.file("a"), {0, 5});
  record_toy(run, folder.file("b"), {0, 5});
  EXPECT_EQ(test::bytes_of(folder.file("a")), test::bytes_of(folder.file("b")));
}

TEST(Recorder, HoldsTheOrderAndTheIdentity) {
  const TempFolder folder;
  const Plan plan = derive_plan(toy_config(2, 700));  // an order of several records
  RecorderOptions options;
  options.identity = R"({"note": ")" + std::string(5000, 'x') + "\"}";
  auto live = std::make_shared<LiveDirector>(policy_for(plan));
  auto recorder = std::make_shared<Recorder>(folder.file("a"), plan, live, options);
  ToyRun run;
  run.config = toy_config(2, 700);
  run_toy(run, recorder, {0, 0});
  recorder->close();
  const auto recording = Recording::open(folder.file("a"));
  EXPECT_EQ(recording->header().identity, options.identity);
  EXPECT_EQ(recording->order(RankId(0)), plan.order[0]);
  EXPECT_EQ(recording->order(RankId(1)), plan.order[1]);
  EXPECT_EQ(recording->header().run_id, options.run_id);
}

TEST(Recorder, HoldsFailureAndItsText) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(3, 6);
  run.steps = 2;
  run.on_enter = [](const Action& action) {
    if (to_string(action) == "1F3") throw std::runtime_error("a bad sample");
  };
  record_toy(run, folder.file("a"), {0, 1});
  const auto step = Recording::open(folder.file("a"))->step(0);
  EXPECT_TRUE(step.complete);
  EXPECT_EQ(step.error, "stage 1, mb 3, F failed: a bad sample");
  const auto& rank = step.ranks[1];
  ASSERT_GE(rank.size(), 3U);
  EXPECT_EQ(rank[rank.size() - 3].kind, Event::Kind::failed);
  EXPECT_EQ(rank[rank.size() - 2].kind, Event::Kind::stopped);
  EXPECT_EQ(rank[rank.size() - 1].kind, Event::Kind::aborted);
}

TEST(Recorder, LongErrorTextsAreCutBetweenCharacters) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(1, 1);
  run.on_enter = [](const Action&) {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += "\xC3\xA4";
    throw std::runtime_error(text);
  };
  record_toy(run, folder.file("a"), {0, 0});
  const auto error = Recording::open(folder.file("a"))->step(0).error;
  EXPECT_GE(error.size(), 2046U);
  EXPECT_LE(error.size(), 2048U);
  EXPECT_EQ(error.substr(error.size() - 2), "\xC3\xA4");
}

TEST(Recorder, AnotherPipelineOrStepIsRefused) {
  const TempFolder folder;
  const Plan plan = derive_plan(toy_config(2, 4));
  Recorder recorder(folder.file("a"), plan, std::make_shared<LiveDirector>(policy_for(plan)));
  recorder.for_rank(plan, RankId(0), 0);
  EXPECT_THROW(recorder.for_rank(plan, RankId(0), 2), std::logic_error);
  const Plan other = derive_plan(toy_config(3, 4));
  EXPECT_THROW(recorder.for_rank(other, RankId(0), 1), std::logic_error);
  recorder.close();
  EXPECT_THROW(recorder.for_rank(plan, RankId(0), 1), std::logic_error);
}

TEST(Recorder, WithoutAnotherDirectorItAsksThePlansPolicy) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(3, 6, OrderMode::adaptive);
  auto recorder = std::make_shared<Recorder>(folder.file("a"), derive_plan(run.config), nullptr);
  const auto outcome = run_toy(run, recorder, {0, 3});
  EXPECT_EQ(outcome.weights, test::toy_plain_loop(3, 6, 1));
  EXPECT_EQ(Recording::open(folder.file("a"))->step(0).error, "");
}

/// Ends a step at the last moment, as a cancellation does that comes between the last action and the
/// update.
class LateStop final : public Director {
 public:
  explicit LateStop(const Plan& plan) : live_(policy_for(plan)) {}
  std::unique_ptr<RankDirector> for_rank(const Plan& plan, RankId rank,
                                         std::int64_t step) override {
    return live_.for_rank(plan, rank, step);
  }
  void before_commit(std::int64_t step) override {
    if (step == 1) throw std::runtime_error("the step was cancelled");
  }
  void step_ended(const StepEnd&) override {}

 private:
  LiveDirector live_;
};

TEST(Recorder, AStopBehindTheLastActionIsReplayedThere) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(3, 6, OrderMode::adaptive);
  run.steps = 3;
  const Plan plan = derive_plan(run.config);
  auto recorder =
      std::make_shared<Recorder>(folder.file("a"), plan, std::make_shared<LateStop>(plan));
  const auto outcome = run_toy(run, recorder, {0, 3});
  recorder->close();
  EXPECT_THAT(outcome.errors[1], HasSubstr("the step was cancelled"));
  const auto recording = Recording::open(folder.file("a"));
  EXPECT_EQ(recording->step(1).ranks[0].back().kind, Event::Kind::aborted);
  const auto replay = test::replay_toy(run, recording, {2, 4});
  EXPECT_EQ(replay.replayer->verdict(), Verdict::same)
      << (replay.replayer->divergence() ? replay.replayer->divergence()->message : "");
  EXPECT_EQ(replay.outcome.weights, outcome.weights);
  EXPECT_THAT(replay.outcome.errors[1], HasSubstr("the step was cancelled"));
}

TEST(Recorder, HoldsFromWhereItCanBeRunAgainAndWhatEachStepCameTo) {
  const TempFolder folder;
  ToyRun run;
  run.config = toy_config(2, 4);
  run.steps = 2;
  RecorderOptions options;
  options.sync_every = 1;
  auto recorder =
      std::make_shared<Recorder>(folder.file("a"), derive_plan(run.config), nullptr, options);
  run_toy(run, recorder, {0, 0});
  RecordedAnchor anchor;
  anchor.step = 2;
  anchor.samples = 16;
  anchor.file = "checkpoints/step-2";
  anchor.hash = 0x0123456789abcdefU;
  recorder->add_anchor(anchor);
  anchor.file = std::string(5000, 'x');
  EXPECT_THROW(recorder->add_anchor(anchor), std::invalid_argument);
  recorder->close();
  recorder->add_anchor(anchor);  // closed: there is nowhere to note it

  const auto recording = Recording::open(folder.file("a"));
  ASSERT_EQ(recording->anchors().size(), 2U);
  EXPECT_EQ(recording->anchors()[0].step, 0);
  EXPECT_EQ(recording->anchors()[0].file, "");
  EXPECT_FALSE(recording->anchors()[0].hash);
  EXPECT_EQ(recording->anchors()[1].step, 2);
  EXPECT_EQ(recording->anchors()[1].samples, 16);
  EXPECT_EQ(recording->anchors()[1].file, "checkpoints/step-2");
  EXPECT_EQ(recording->anchors()[1].hash, 0x0123456789abcdefU);
  ASSERT_TRUE(recording->step(0).result && recording->step(1).result);
  EXPECT_GT(recording->step(0).result->loss, recording->step(1).result->loss);
}

struct FullDisk {
  test::ToyOutcome outcome;
  std::optional<RecordingError> failure;
  std::size_t recorded = 0;
};

FullDisk run_on_full_disk(bool go_on) {
  const TempFolder folder;
  const test::FileSizeLimit limit(200'000);
  ToyRun run;
  run.config = toy_config(2, 8);
  run.steps = 600;
  const Plan plan = derive_plan(run.config);
  RecorderOptions options;
  options.go_on_unrecorded = go_on;
  auto recorder = std::make_shared<Recorder>(
      folder.file("a"), plan, std::make_shared<LiveDirector>(policy_for(plan)), options);
  FullDisk result;
  result.outcome = run_toy(run, recorder, {0, 0});
  result.failure = recorder->failure();
  const auto recording = Recording::open(folder.file("a"));
  result.recorded = recording->steps();
  EXPECT_FALSE(recording->closed());
  for (std::size_t k = 0; k < recording->steps(); ++k) {
    EXPECT_TRUE(recording->step(k).complete);
    EXPECT_TRUE(test::same_events(merged(recording->step(k)), result.outcome.logs[k]));
  }
  return result;
}

TEST(Recorder, AFullDiskEndsTheRunBetweenSteps) {
  const auto [outcome, failure, recorded] = run_on_full_disk(false);
  ASSERT_TRUE(failure);
  EXPECT_GT(recorded, 100U);
  EXPECT_EQ(outcome.logs.size(), recorded);  // no step has run that is not recorded
  ASSERT_EQ(outcome.errors.size(), 600U);
  for (std::size_t k = 0; k < 600; ++k) {
    if (k < recorded) {
      EXPECT_EQ(outcome.errors[k], "");
    } else {
      EXPECT_THAT(outcome.errors[k], HasSubstr("free disk space"));
    }
  }
  EXPECT_EQ(outcome.weights, test::toy_plain_loop(2, 8, static_cast<int>(recorded)));
}

TEST(Recorder, AFullDiskMayCostTheRestOfTheRecordingAlone) {
  const auto [outcome, failure, recorded] = run_on_full_disk(true);
  ASSERT_TRUE(failure);
  EXPECT_GT(recorded, 100U);
  EXPECT_LT(recorded, 600U);
  EXPECT_THAT(outcome.errors, Each(""));
  EXPECT_EQ(outcome.weights, test::toy_plain_loop(2, 8, 600));
}

}  // namespace
}  // namespace sluice::replay
