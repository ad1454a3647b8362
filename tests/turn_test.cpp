// Turns: how long a rank goes on before others on its executor are let in, and whom it takes along.
#include <sluice/turn.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <sluice/pipeline.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include "toy_pipeline.hpp"

namespace sluice {
namespace {

using test::Toy;
using testing::ElementsAre;

/// What happens on the executor of a pipeline of one stage, whose first action leaves a message there.
std::vector<std::string> happened(std::chrono::nanoseconds length, int yields) {
  asio::io_context context(1);
  std::vector<std::string> happened;
  auto hooks = std::make_shared<test::ToyHooks>();
  hooks->on_enter = [&](const Action& action) {
    happened.push_back(to_string(action));
    if (happened.size() == 1) asio::post(context, [&] { happened.emplace_back("other work"); });
  };
  hooks->yields = [yields](const Action&) { return yields; };
  PipelineOptions options;
  options.executors = single_thread(context.get_executor(), {length, std::chrono::hours(0)});
  PlanConfig config;
  config.stages = 1;
  config.microbatches = 2;
  config.schedule = ScheduleName::gpipe;
  Pipeline<Toy> pipeline(derive_plan(config), test::toy_factory(hooks), options);
  pipeline.async_step(test::toy_batch(0, 2), [&](std::exception_ptr error, StepResult) {
    EXPECT_FALSE(error);
    happened.emplace_back("step ended");
  });
  context.run();
  return happened;
}

TEST(Turn, WithoutOneEveryActionLetsOthersIn) {
  EXPECT_THAT(happened(std::chrono::nanoseconds(0), 0),
              ElementsAre("0F0", "other work", "0F1", "0B0", "0B1", "step ended"));
}

TEST(Turn, InALongOneARankWithWorkTakesNoTripThroughTheQueue) {
  EXPECT_THAT(happened(std::chrono::hours(1), 0),
              ElementsAre("0F0", "0F1", "0B0", "0B1", "other work", "step ended"));
}

TEST(Turn, AStageFunctionThatSuspendsLetsOthersIn) {
  EXPECT_THAT(happened(std::chrono::hours(1), 1),
              ElementsAre("0F0", "other work", "0F1", "0B0", "0B1", "step ended"));
}

constexpr std::chrono::hours always(1);

/// Trips through the queue of one thread's executor that a step takes after those that ranks learn from.
std::size_t trips(int microbatches, Turns turns) {
  asio::io_context context(1);
  PipelineOptions options;
  options.executors = single_thread(context.get_executor(), turns);
  Pipeline<Toy> pipeline(derive_plan({.stages = 4, .microbatches = microbatches}),
                         test::toy_factory(std::make_shared<test::ToyHooks>()), options);
  std::size_t trips = 0;
  for (int step = 0; step < 3; ++step) {
    pipeline.async_step(test::toy_batch(step, microbatches),
                        [](std::exception_ptr error, StepResult) { EXPECT_FALSE(error); });
    trips = context.run();
    context.restart();
  }
  return trips;
}

TEST(Turn, ShortActionsOnOneThreadTakeAsManyTripsWhateverTheirNumber) {
  EXPECT_EQ(trips(400, {always, always}), trips(40, {always, always}));
  EXPECT_LT(trips(400, {always, always}), 40U);
}

TEST(Turn, ActionsThatAreNotShortCallWhomTheyWakeAtOnce) {
  EXPECT_GT(trips(400, {always, std::chrono::hours(0)}), 400U);
}

TEST(Turn, ARowOfRanksThatHasHadItsTurnLetsOthersIn) {
  EXPECT_GT(trips(400, {std::chrono::nanoseconds(1), always}), 3000U);  // of 3200 actions
}

TEST(Turn, WhoIsTakenAlongRunsOnItsOwnExecutorAllTheSame) {
  using Strand = asio::strand<asio::thread_pool::executor_type>;
  asio::thread_pool pool(2);
  std::vector<Strand> strands;
  for (int r = 0; r < 4; ++r) strands.push_back(asio::make_strand(pool.get_executor()));
  std::atomic<int> elsewhere{0};
  auto hooks = std::make_shared<test::ToyHooks>();
  hooks->on_enter = [&](const Action& action) {
    if (!strands[action.stage.index()].running_in_this_thread()) ++elsewhere;
  };
  PipelineOptions options;
  options.executors =
      StageExecutors([&](RankId rank) -> asio::any_io_executor { return strands[rank.index()]; },
                     {always, always});
  Pipeline<Toy> pipeline(derive_plan({.stages = 4, .microbatches = 200}), test::toy_factory(hooks),
                         options);
  for (int step = 0; step < 5; ++step) {
    pipeline.async_step(test::toy_batch(step, 200), asio::use_future).get();
  }
  EXPECT_EQ(elsewhere, 0);
  pool.join();
}

TEST(Pace, ARankIsBriskWhenItsLastActionsWereShortButForOneOrTwo) {
  detail::Pace pace({always, std::chrono::microseconds(1)});
  const std::chrono::nanoseconds quick(999);
  const std::chrono::microseconds slow(1);
  EXPECT_FALSE(pace.brisk());
  for (int i = 0; i < 32; ++i) pace.action_took(quick);
  EXPECT_TRUE(pace.brisk());
  pace.action_took(slow);
  EXPECT_FALSE(pace.brisk());
  for (int i = 0; i < 1000; ++i) pace.action_took(quick);
  for (const bool still : {true, true, false}) {
    pace.action_took(slow);
    EXPECT_EQ(pace.brisk(), still);
  }
  for (int i = 0; i < 1000; ++i) pace.action_took(slow);
  for (int i = 0; i < 31; ++i) pace.action_took(quick);
  EXPECT_FALSE(pace.brisk());
}

}  // namespace
}  // namespace sluice
