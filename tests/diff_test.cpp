// diff: two recordings part where their runs did, in the replayer's words.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/diff.hpp>

#include "recorded_run.hpp"
#include "recording_support.hpp"

namespace sluice::replay {
namespace {

using test::Machine;
using test::record_toy;
using test::TempFolder;
using test::toy_config;
using test::ToyRun;
using testing::HasSubstr;

ToyRun some_run(int steps = 2) {
  ToyRun run;
  run.config = toy_config(4, 9, OrderMode::adaptive);
  run.steps = steps;
  return run;
}

std::shared_ptr<const Recording> recorded(const ToyRun& run, Machine machine,
                                          std::shared_ptr<Policy> policy = nullptr) {
  const TempFolder folder;
  record_toy(run, folder.file("a"), machine, std::move(policy));
  return Recording::open(folder.file("a"));
}

TEST(Diff, ARecordingEqualsItself) {
  const auto a = recorded(some_run(), {2, 1});
  const auto d = diff(*a, *a);
  EXPECT_EQ(d.verdict, Verdict::same);
  EXPECT_EQ(d.events, 2 * (2 * 2 * 4 * 9 + 4));
  EXPECT_EQ(d.hashes, 2 * (2 * 4 * 9 + 4));
}

TEST(Diff, OtherOrdersHaveTheSameTensors) {
  const auto a = recorded(some_run(), {0, 1});
  const auto b = recorded(some_run(), {0, 2});
  const auto d = diff(*a, *b);
  EXPECT_EQ(d.verdict, Verdict::diverged);
  ASSERT_TRUE(d.actions);
  EXPECT_EQ(d.actions->kind, DivergenceClass::action);
  EXPECT_FALSE(d.tensors);
  EXPECT_EQ(d.hashes, 2 * (2 * 4 * 9 + 4));
}

TEST(Diff, AChangedWeightIsTheFirstDifferentTensor) {
  const auto a = recorded(some_run(), {0, 1});
  ToyRun run = some_run();
  run.weight = [](StageId stage) {
    return test::toy_weight(stage) + (stage.value == 1 ? 1e-9 : 0);
  };
  const auto b = recorded(run, {0, 1});
  const auto d = diff(*a, *b);
  EXPECT_EQ(d.verdict, Verdict::diverged);
  EXPECT_FALSE(d.actions);
  ASSERT_TRUE(d.tensors);
  EXPECT_EQ(d.tensors->kind, DivergenceClass::tensor);
  EXPECT_EQ(d.tensors->stage, StageId(1));
  EXPECT_EQ(d.tensors->mb, MicrobatchId(0));
  EXPECT_EQ(d.tensors->phase, Phase::forward);
  EXPECT_EQ(d.tensors->step, 0);
}

TEST(Diff, MoreStepsAreACountDifference) {
  const auto a = recorded(some_run(2), {0, 1});
  const auto b = recorded(some_run(3), {0, 1});
  for (const auto& d : {diff(*a, *b), diff(*b, *a)}) {
    EXPECT_EQ(d.verdict, Verdict::diverged);
    ASSERT_TRUE(d.actions);
    EXPECT_EQ(d.actions->kind, DivergenceClass::count);
    EXPECT_EQ(d.actions->step, 2);
    EXPECT_FALSE(d.tensors);
  }
}

TEST(Diff, AFailureIsFound) {
  const auto a = recorded(some_run(1), {0, 1});
  ToyRun run = some_run(1);
  run.on_enter = [](const Action& action) {
    if (to_string(action) == "2B3") throw std::domain_error("planted");
  };
  const auto d = diff(*a, *recorded(run, {0, 1}));
  ASSERT_TRUE(d.actions);
  EXPECT_EQ(d.actions->kind, DivergenceClass::failure);
  EXPECT_EQ(d.actions->stage, StageId(2));
  EXPECT_EQ(d.actions->mb, MicrobatchId(3));
}

TEST(Diff, ADifferentErrorTextIsFound) {
  const auto failing = [](const char* text) {
    ToyRun run = some_run(1);
    run.on_enter = [text](const Action& action) {
      if (to_string(action) == "2B3") throw std::domain_error(text);
    };
    return recorded(run, {0, 1});
  };
  EXPECT_EQ(diff(*failing("a"), *failing("a")).verdict, Verdict::same);
  const auto d = diff(*failing("a"), *failing("b"));
  ASSERT_TRUE(d.actions);
  EXPECT_EQ(d.actions->recorded, "stage 2, mb 3, B failed: a");
  EXPECT_EQ(d.actions->found, "stage 2, mb 3, B failed: b");
}

TEST(Diff, ARecordingThatEndsEarlyIsNoDifference) {
  const TempFolder folder;
  record_toy(some_run(60), folder.file("a"), {0, 1});
  const auto whole = Recording::open(folder.file("a"));
  const auto bytes = test::bytes_of(folder.file("a"));
  int differing = 0;
  for (std::size_t size = 4 * format::page_size; size < bytes.size(); size += format::page_size) {
    const auto part = Recording::parse({bytes.begin(), bytes.begin() + size}, "cut");
    EXPECT_EQ(diff(*whole, *part).verdict, Verdict::recording_ends) << size;
    EXPECT_EQ(diff(*part, *whole).verdict, Verdict::recording_ends) << size;
    differing += part->steps() < whole->steps();
  }
  EXPECT_GT(differing, 3);
}

TEST(Diff, OtherShapesAreRefused) {
  ToyRun run = some_run();
  run.config = toy_config(3, 9);
  const auto a = recorded(some_run(), {0, 1});
  const auto b = recorded(run, {0, 1});
  EXPECT_THROW(diff(*a, *b), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::replay
