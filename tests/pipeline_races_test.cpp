// The explorer on races of known depth in the stage functions of a user's pipeline: the runtime is the real
// one, and what is wrong is that two stages share something.
//
// The campaigns that measure how often a race is found: SLUICE_CAMPAIGNS=100 ./pipeline_races_test
#include <functional>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/replay/explorer.hpp>

#include "pct_campaigns.hpp"

namespace sluice::replay {
namespace {

using testing::IsEmpty;

/// What the stages share, and must not.
struct Shared {
  int value = 0;
  std::string wrong;
  DeterministicContext* context = nullptr;
};

using Work = std::function<asio::awaitable<void>(Action, std::shared_ptr<Shared>)>;

class Sharing final : public Stage<int> {
 public:
  Sharing(const Work& work, std::shared_ptr<Shared> shared)
      : work_(work), shared_(std::move(shared)) {}

  asio::awaitable<int> forward(ActionContext<int>& context, int input) override {
    auto work = work_(context.action, shared_);
    co_await std::move(work);
    co_return input;
  }
  asio::awaitable<Gradients<int>> backward(ActionContext<int>& context, int gradient) override {
    auto work = work_(context.action, shared_);
    co_await std::move(work);
    co_return Gradients<int>(gradient, 0);
  }
  void accumulate(MicrobatchId, int) override {}
  void prepare_update(std::int64_t) override {}
  void commit() noexcept override {}
  void abort() noexcept override {}

 private:
  const Work& work_;
  std::shared_ptr<Shared> shared_;
};

class Source final : public BatchSource<int> {
  asio::awaitable<MicrobatchData<int>> next(MicrobatchId) override {
    co_return MicrobatchData<int>(0, 0, 1);
  }
};

/// A step of a pipeline with these stage functions, and what they did to each other.
Program pipeline_of(int stages, int microbatches, Work work, std::size_t most = 100'000) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  const auto plan = std::make_shared<const Plan>(derive_plan(config));
  return program_of(
      [plan,
       work = std::move(work)](DeterministicContext& context) -> std::function<std::string()> {
        auto shared = std::make_shared<Shared>();
        shared->context = &context;
        PipelineOptions options;
        options.executors = serial_per_rank(context, plan->ranks);
        auto pipeline = std::make_shared<Pipeline<int>>(
            *plan,
            [&work, shared](const StageContext&) {
              return std::make_unique<Sharing>(work, shared);
            },
            options);
        auto error = std::make_shared<std::string>("the step has not ended");
        pipeline->async_step(Batch<int>(std::make_shared<Source>(), plan->microbatches),
                             [error](const std::exception_ptr& thrown, const StepResult&) {
                               *error = thrown ? text_of(thrown) : "";
                             });
        return [pipeline, shared, error] { return error->empty() ? shared->wrong : *error; };
      },
      most);
}

asio::awaitable<void> turns(int count) {
  for (int i = 0; i < count; ++i) co_await asio::post(asio::use_awaitable);
}

bool is(const Action& action, const char* text) { return action == *parse_action(text); }

// Depth 1: one ordering is enough. The loss of the first microbatch is computed with what the first stage
// sets up in its last forward.
asio::awaitable<void> late_setup(Action action, std::shared_ptr<Shared> shared) {
  if (is(action, "0F1")) shared->value = 1;
  if (is(action, "1B0") && shared->value == 0) shared->wrong = "1B0 came before 0F1";
  co_return;
}

// Depth 2: the first stage reads, lets others go, and writes; the second must come in between.
asio::awaitable<void> lost_update(Action action, std::shared_ptr<Shared> shared) {
  if (is(action, "0F1")) {
    const int seen = shared->value;
    co_await turns(1);
    shared->value = seen + 1;
  }
  if (is(action, "1F0")) {
    co_await turns(4);
    const int seen = shared->value;
    co_await turns(1);
    shared->value = seen + 1;
  }
  if (is(action, "0B1") && shared->value != 2) shared->wrong = "an update was lost";
}

// Depth 3: the second stage must come into the window of the first, and be interrupted there itself.
asio::awaitable<void> window(Action action, std::shared_ptr<Shared> shared) {
  if (is(action, "0F1")) {
    co_await turns(1);
    shared->value = 1;
    co_await turns(1);
    if (shared->value == 2) shared->wrong = "closed on a guest";
    shared->value = 3;
  }
  if (is(action, "1F0")) {
    co_await turns(4);
    if (shared->value != 1) co_return;
    shared->value = 2;
    co_await turns(1);
    shared->value = 1;
  }
}

Program race_of_depth(int depth) {
  return depth == 1 ? pipeline_of(2, 2, late_setup)
                    : pipeline_of(2, 2, depth == 2 ? lost_update : window);
}

TEST(PipelineRaces, FirstInFirstOutShowsNone) {
  for (int depth = 1; depth <= 3; ++depth) {
    ExploreOptions options;
    options.strategy = StrategyName::bounded;
    options.depth = 0;
    EXPECT_THAT(explore(race_of_depth(depth), options).failures, IsEmpty()) << depth;
  }
}

TEST(PipelineRaces, PctFindsEachWithinTheRunsOfItsBound) {
  for (int depth = 1; depth <= 3; ++depth) {
    const auto campaigns = test::pct_campaigns(race_of_depth(depth), depth);
    fmt::print("depth {}: found in {} of {} campaigns of {} runs, the longest took {}\n", depth,
               campaigns.found, campaigns.all, campaigns.bound, campaigns.most);
    EXPECT_TRUE(campaigns.as_promised()) << depth;
  }
}

TEST(PipelineRaces, WhatIsLeftOfEachIsAFewDeviations) {
  for (int depth = 1; depth <= 3; ++depth) {
    const Program race = race_of_depth(depth);
    const Exploration result = explore(race, {});
    ASSERT_EQ(result.failures.size(), 1) << depth;
    const auto least = minimise(race, result.failures.front());
    ASSERT_TRUE(least);
    EXPECT_LE(least->deviations.size(), 10) << depth;
    EXPECT_EQ(least->reproduced, 10);
    EXPECT_NE(least->flips, "");
  }
}

// A stage function that polls for what only its own rank could bring about.
asio::awaitable<void> polls(Action action, std::shared_ptr<Shared> shared) {
  if (is(action, "0F1")) shared->value = 1;
  if (is(action, "0F0")) {
    while (shared->value == 0) co_await turns(1);
  }
}

TEST(PipelineRaces, AStageThatPollsForEverIsALivelock) {
  ExploreOptions options;
  options.runs = 3;
  const Exploration result = explore(pipeline_of(2, 2, polls, 30'000), options);
  ASSERT_EQ(result.failures.size(), 1);
  EXPECT_EQ(result.failures.front().kind, "livelock");
}

// The same for what another rank brings about ends: it has its turn again after 10,000 unfair steps.
asio::awaitable<void> polls_another(Action action, std::shared_ptr<Shared> shared) {
  if (is(action, "0F1")) shared->value = 1;
  if (is(action, "1F0")) {
    while (shared->value == 0) co_await turns(1);
  }
}

TEST(PipelineRaces, AStageThatPollsAnotherIsNotStarvedForEver) {
  class Starve final : public Strategy {
    void begin(std::int64_t) override {}
    std::size_t pick(std::span<const Runnable> runnable, std::uint32_t) override {
      std::size_t chosen = 0;  // rank 1 whenever it can run
      for (std::size_t i = 0; i < runnable.size(); ++i) {
        if (runnable[i].lane == 2) chosen = i;
      }
      return chosen;
    }
  };
  Starve starve;
  Trace trace;
  EXPECT_EQ(run_once(pipeline_of(2, 2, polls_another), starve, trace).text, "");
  EXPECT_GT(trace.steps, 10'000);
}

// What one order in a hundred shows is found.
asio::awaitable<void> canary(Action action, std::shared_ptr<Shared> shared) {
  if (is(action, "1B1") && shared->context->choose(100) == 42) shared->wrong = "the canary";
  co_return;
}

TEST(PipelineRaces, ACanaryOfOnePercentShows) {
  ExploreOptions options;
  options.runs = 2000;
  options.most_failures = 2000;
  const Exploration result = explore(pipeline_of(2, 2, canary), options);
  EXPECT_GT(result.failures.size(), 5);
  EXPECT_LT(result.failures.size(), 60);
}

}  // namespace
}  // namespace sluice::replay
