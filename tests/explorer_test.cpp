// The explorer on planted bugs of known depth, in coroutines that are no pipelines.
//
// The campaigns that measure how often a bug is found: SLUICE_CAMPAIGNS=100 ./explorer_test
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/replay/explorer.hpp>

#include "pct_campaigns.hpp"

namespace sluice::replay {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

/// What the tasks below share.
struct Shared {
  int value = 0;
  bool ready = false;
  std::string wrong;
};

asio::awaitable<void> turn() { co_await asio::post(asio::use_awaitable); }

// Depth 1: one ordering is enough. The reader must not come before the writer; by default it does not.
asio::awaitable<void> write_late(std::shared_ptr<Shared> shared) {
  shared->ready = true;
  co_return;
}
asio::awaitable<void> read_early(std::shared_ptr<Shared> shared) {
  for (int i = 0; i < 3; ++i) co_await turn();
  if (!shared->ready) shared->wrong = "read before it was written";
}

// Depth 2: between the two steps of one task comes another. A lost update.
asio::awaitable<void> add_one(std::shared_ptr<Shared> shared, int idle) {
  for (int i = 0; i < idle; ++i) co_await turn();
  const int seen = shared->value;
  co_await turn();
  shared->value = seen + 1;
}

// Depth 3: the second task must come into the window of the first, and be interrupted there itself.
asio::awaitable<void> open_window(std::shared_ptr<Shared> shared) {
  co_await turn();
  shared->value = 1;
  co_await turn();
  if (shared->value == 2) shared->wrong = "closed on a guest";
  shared->value = 3;
}
asio::awaitable<void> guest(std::shared_ptr<Shared> shared) {
  for (int i = 0; i < 2; ++i) co_await turn();
  if (shared->value != 1) co_return;
  shared->value = 2;
  co_await turn();
  shared->value = 1;
}

Program depth_one() {
  return program_of([](DeterministicContext& context) {
    auto shared = std::make_shared<Shared>();
    context.spawn("writer", write_late(shared));
    context.spawn("reader", read_early(shared));
    return [shared] { return shared->wrong; };
  });
}

Program depth_two() {
  return program_of([](DeterministicContext& context) {
    auto shared = std::make_shared<Shared>();
    context.spawn("one", add_one(shared, 0));
    context.spawn("other", add_one(shared, 5));
    return
        [shared] { return shared->value == 2 ? std::string() : std::string("an update was lost"); };
  });
}

Program depth_three() {
  return program_of([](DeterministicContext& context) {
    auto shared = std::make_shared<Shared>();
    context.spawn("window", open_window(shared));
    context.spawn("guest", guest(shared));
    return [shared] { return shared->wrong; };
  });
}

TEST(Explorer, PctFindsABugOfEachDepthWithinTheRunsOfItsBound) {
  EXPECT_TRUE(test::pct_campaigns(depth_one(), 1).as_promised());
  EXPECT_TRUE(test::pct_campaigns(depth_two(), 2).as_promised());
  EXPECT_TRUE(test::pct_campaigns(depth_three(), 3).as_promised());
}

TEST(Explorer, TheDefaultOrderShowsNoneOfThem) {
  for (const Program& run : {depth_one(), depth_two(), depth_three()}) {
    ExploreOptions options;
    options.strategy = StrategyName::bounded;
    options.depth = 0;
    const Exploration result = explore(run, options);
    EXPECT_THAT(result.failures, testing::IsEmpty());
    EXPECT_TRUE(result.complete);
    EXPECT_EQ(result.runs, 1);
  }
}

// A bug that one seed in a hundred shows is found by a thousand of them.
TEST(Explorer, ACanaryOfOnePercentShows) {
  const Program canary = program_of([](DeterministicContext& context) {
    const bool sings = context.choose(100) == 42;
    return [sings] { return std::string(sings ? "the canary" : ""); };
  });
  ExploreOptions options;
  options.runs = 2000;
  options.most_failures = 2000;
  const Exploration result = explore(canary, options);
  EXPECT_GT(result.failures.size(), 5);
  EXPECT_LT(result.failures.size(), 60);
  EXPECT_EQ(result.distinct, 100);
}

TEST(Explorer, BoundedRunsEachOrderOnceAndSaysWhenItHasRunAll) {
  ExploreOptions options;
  options.strategy = StrategyName::bounded;
  options.depth = 2;
  options.most_failures = 1'000'000;
  const Exploration result = explore(depth_three(), options);
  EXPECT_FALSE(result.failures.empty());
  EXPECT_LE(result.distinct, result.runs);
  EXPECT_GE(result.distinct, 4);
}

TEST(Explorer, WhatIsLeftOfAFailureIsNeededAndFailsEachTime) {
  ExploreOptions options;
  options.runs = 10'000;
  const Exploration result = explore(depth_three(), options);
  ASSERT_THAT(result.failures, SizeIs(1));
  const auto least = minimise(depth_three(), result.failures.front());
  ASSERT_TRUE(least);
  EXPECT_EQ(least->reproduced, 10);
  EXPECT_EQ(least->text, "closed on a guest");
  EXPECT_LE(least->deviations.size(), 3);
  EXPECT_THAT(least->flips, HasSubstr("ran before"));
  for (std::size_t i = 0; i < least->deviations.size(); ++i) {
    auto without = least->deviations;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    ByDeviations strategy(without);
    Trace trace;
    EXPECT_EQ(run_once(depth_three(), strategy, trace).kind, "");
  }
}

/// Waits for what nobody will do.
asio::awaitable<void> wait_for_ever() {
  auto forget = [](auto handler) { static_cast<void>(handler); };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(forget, asio::use_awaitable);
}
asio::awaitable<void> spin() {
  for (;;) co_await turn();
}
asio::awaitable<void> fail() {
  co_await turn();
  throw std::runtime_error("planted");
}

Outcome outcome_of(const Program& run) {
  ByDeviations strategy({});
  Trace trace;
  return run_once(run, strategy, trace);
}

TEST(Explorer, EndlessStuckAndFailedRunsAreToldApart) {
  const Outcome endless = outcome_of(program_of(
      [](DeterministicContext& context) {
        context.spawn("spinner", spin());
        return nullptr;
      },
      20'000));
  EXPECT_EQ(endless.kind, "livelock");
  const Outcome stuck = outcome_of(program_of([](DeterministicContext& context) {
    context.spawn("ends", turn());
    context.spawn("waits", wait_for_ever());
    return nullptr;
  }));
  EXPECT_EQ(stuck.kind, "stuck");
  EXPECT_THAT(stuck.text, HasSubstr("not ended: waits"));
  const Outcome failed = outcome_of(program_of([](DeterministicContext& context) {
    context.spawn("thrower", fail());
    return nullptr;
  }));
  EXPECT_EQ(failed.kind, "failed");
  EXPECT_EQ(failed.text, "planted");
}

TEST(Explorer, WhatDiffersFromRunToRunIsSaid) {
  auto calls = std::make_shared<int>(0);
  const Program unsteady = program_of([calls](DeterministicContext& context) {
    if (++*calls % 2 == 0) context.spawn("now and then", turn());
    return nullptr;
  });
  const Exploration result = explore(unsteady, {});
  ASSERT_THAT(result.failures, SizeIs(1));
  EXPECT_EQ(result.failures.front().kind, "not-deterministic");
}

asio::awaitable<void> raise(std::shared_ptr<bool> flag) {
  *flag = true;
  co_return;
}
asio::awaitable<void> await_flag(std::shared_ptr<bool> flag) {
  while (!*flag) co_await turn();
}

// After 10,000 steps in which one task was never let through, everyone has a turn again.
TEST(Explorer, UnfairOrdersEnd) {
  class Starve final : public Strategy {
    void begin(std::int64_t) override {}
    std::size_t pick(std::span<const Runnable> runnable, std::uint32_t) override {
      return runnable.size() - 1;
    }
  };
  auto done = std::make_shared<bool>(false);
  const Program unfair = program_of([done](DeterministicContext& context) {
    context.spawn("starved", raise(done));
    context.spawn("greedy", await_flag(done));
    return nullptr;
  });
  Starve starve;
  Trace trace;
  EXPECT_EQ(run_once(unfair, starve, trace).kind, "");
  EXPECT_GT(trace.steps, 10'000);
}

}  // namespace
}  // namespace sluice::replay
