// How a host ends a step before it is through: from any thread, at any moment, all or nothing.
#include <sluice/pipeline.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/plain_stage.hpp>
#include <sluice/random.hpp>

#include "toy_pipeline.hpp"

namespace sluice {
namespace {

using test::Gate;
using test::GatedStage;
using test::on;
using test::plan_of;
using test::Toy;
using test::toy_batch;
using test::toy_factory;
using test::ToyHooks;
using test::weights_of;
using ::testing::HasSubstr;

/// What `step` ended with: "", or the text of its error.
std::string outcome_of(std::future<StepResult> step) {
  try {
    step.get();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(Cancellation, ACancellationSlotAtTheEdgeEndsTheStep) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  auto hooks = std::make_shared<ToyHooks>();
  hooks->yields = [](const Action&) { return 10; };
  Pipeline<Toy> pipeline(plan_of(4, 16), toy_factory(hooks), options);
  const auto before = weights_of(pipeline);
  asio::cancellation_signal signal;
  std::string told;
  pipeline.async_step(
      toy_batch(0, 16),
      asio::bind_cancellation_slot(signal.slot(), [&told](std::exception_ptr error, StepResult) {
        told = error ? text_of(error) : "no error";
      }));
  for (int i = 0; i < 40; ++i) context.run_one();
  signal.emit(asio::cancellation_type::total);
  context.run();
  EXPECT_EQ(told, "the step was cancelled");
  EXPECT_EQ(weights_of(pipeline), before);
}

TEST(Cancellation, AWishMadeBeforeTheStepHasBegunIsServed) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  Pipeline<Toy> pipeline(plan_of(2, 4), toy_factory(std::make_shared<ToyHooks>()), options);
  asio::cancellation_signal signal;
  auto step = pipeline.async_step(toy_batch(0, 4),
                                  asio::bind_cancellation_slot(signal.slot(), asio::use_future));
  signal.emit(asio::cancellation_type::terminal);
  context.run();
  EXPECT_EQ(outcome_of(std::move(step)), "the step was cancelled");
}

TEST(Cancellation, AWishThatComesTooLateDoesNotEndTheNextStep) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  Pipeline<Toy> pipeline(plan_of(2, 4), toy_factory(std::make_shared<ToyHooks>()), options);
  asio::cancellation_signal signal;
  auto first = pipeline.async_step(toy_batch(0, 4),
                                   asio::bind_cancellation_slot(signal.slot(), asio::use_future));
  context.run();
  context.restart();
  auto second = pipeline.async_step(toy_batch(1, 4), asio::use_future);
  for (int i = 0; i < 5; ++i) context.run_one();
  signal.emit(asio::cancellation_type::total);
  context.run();
  EXPECT_EQ(outcome_of(std::move(first)), "");
  EXPECT_EQ(outcome_of(std::move(second)), "");
  EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(2, 4, 2));
}

TEST(Cancellation, AnAwaitingCoroutineOfTheHostPassesItsOwnOn) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  auto hooks = std::make_shared<ToyHooks>();
  hooks->yields = [](const Action&) { return 10; };
  Pipeline<Toy> pipeline(plan_of(3, 8), toy_factory(hooks), options);
  const auto host = [&pipeline]() -> asio::awaitable<void> {
    Batch<Toy> batch = toy_batch(0, 8);
    co_await pipeline.async_step(std::move(batch), asio::use_awaitable);
  };
  asio::cancellation_signal signal;
  std::string told;
  asio::co_spawn(context, host,
                 asio::bind_cancellation_slot(signal.slot(), [&told](std::exception_ptr error) {
                   told = error ? text_of(error) : "no error";
                 }));
  for (int i = 0; i < 60; ++i) context.run_one();
  signal.emit(asio::cancellation_type::terminal);
  context.run();
  EXPECT_EQ(told, "the step was cancelled");
}

// Four ranks on four threads; a fifth cancels at a random moment, from before the step has begun to
// after its end, in every way there is. Under ThreadSanitizer this must be quiet.
TEST(Cancellation, AnyThreadMayCancelAtAnyMomentAndItIsAllOrNothing) {
  asio::thread_pool pool(4);
  KeyedRandom random(5, 0, "cancellation_test", 0, "when");
  auto hooks = std::make_shared<ToyHooks>();
  hooks->yields = [](const Action& action) { return action.mb.value % 3; };
  Pipeline<Toy> pipeline(plan_of(4, 6), toy_factory(hooks), on(pool.get_executor()));
  int cancelled = 0;
  constexpr int runs = 1000;
  for (int run = 0; run < runs; ++run) {
    const auto before = weights_of(pipeline);
    asio::cancellation_signal signal;
    std::atomic<bool> started{false};
    const std::uint32_t spins = random.below(20'000);
    const bool through_slot = run % 2 == 0;
    std::thread canceller([&] {
      while (!started) std::this_thread::yield();
      for (std::uint32_t i = 0; i < spins; ++i) {
        std::atomic_signal_fence(std::memory_order_seq_cst);
      }
      through_slot ? signal.emit(asio::cancellation_type::total) : pipeline.cancel();
    });
    auto step = pipeline.async_step(toy_batch(0, 6),
                                    asio::bind_cancellation_slot(signal.slot(), asio::use_future));
    started = true;
    const auto begun = std::chrono::steady_clock::now();
    const std::string outcome = outcome_of(std::move(step));
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
    canceller.join();
    const auto after = weights_of(pipeline);
    if (outcome.empty()) {
      for (std::size_t s = 0; s < after.size(); ++s) EXPECT_NE(after[s], before[s]);
    } else {
      ++cancelled;
      EXPECT_EQ(outcome, "the step was cancelled");
      EXPECT_EQ(after, before);
    }
  }
  EXPECT_GT(cancelled, 0);
  pool.join();
}

/// A stage that tells when it prepares and when it commits.
struct Telling {
  Toy forward(ActionContext<Toy>&, Toy x) { return x; }
  Gradients<Toy> backward(ActionContext<Toy>&, Toy g) { return Gradients<Toy>(g, Toy()); }
  void prepare_update(std::int64_t) { on_prepare(); }
  void commit() { on_commit(); }

  std::function<void()> on_prepare;
  std::function<void()> on_commit;
};

TEST(Cancellation, BetweenTheLastActionAndTheDecisionNothingIsApplied) {
  asio::thread_pool pool(2);
  Pipeline<Toy>* running = nullptr;
  std::atomic<int> commits{0};
  Pipeline<Toy> pipeline(
      plan_of(3, 4),
      [&](const StageContext& at) {
        return make_stage<Toy>(Telling{[&running, at] {
                                         if (at.stage == StageId(1)) running->cancel();
                                       },
                                       [&commits] { ++commits; }});
      },
      on(pool.get_executor()));
  running = &pipeline;
  EXPECT_EQ(outcome_of(pipeline.async_step(toy_batch(0, 4), asio::use_future)),
            "the step was cancelled");
  EXPECT_EQ(commits, 0);
  pool.join();
}

TEST(Cancellation, WhatWasAppliedIsNeverCalledCancelled) {
  asio::thread_pool pool(2);
  Pipeline<Toy>* running = nullptr;
  std::atomic<int> commits{0};
  Pipeline<Toy> pipeline(
      plan_of(3, 4),
      [&](const StageContext&) {
        return make_stage<Toy>(Telling{[] {},
                                       [&] {
                                         ++commits;
                                         running->cancel();  // too late: this stage has committed
                                       }});
      },
      on(pool.get_executor()));
  running = &pipeline;
  EXPECT_EQ(outcome_of(pipeline.async_step(toy_batch(0, 4), asio::use_future)), "");
  EXPECT_EQ(commits, 3);
  pool.join();
}

TEST(Cancellation, ADeadlineEndsTheStepAndSaysWhereEveryoneStood) {
  asio::thread_pool pool(2);
  auto gate = std::make_shared<Gate>(pool);
  Pipeline<Toy> pipeline(
      plan_of(3, 8), [&](const StageContext&) { return std::make_unique<GatedStage>(gate); },
      on(pool.get_executor()));
  auto batch = toy_batch(0, 8);
  batch.deadline = std::chrono::milliseconds(20);
  auto step = pipeline.async_step(batch, asio::use_future);
  gate->reached.get_future().get();
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  gate->open();  // the step has waited for the stage function
  try {
    step.get();
    FAIL() << "the step should have run out of time";
  } catch (const StepError& error) {
    EXPECT_EQ(error.kind(), StepError::Kind::timed_out);
    EXPECT_THAT(error.what(), HasSubstr("exceeded its deadline of 0.02 s"));
    EXPECT_THAT(error.what(), HasSubstr("rank 1: 3 actions run, running 1F2"));
    EXPECT_THAT(error.what(), HasSubstr("waits for 2F2 (rank 1 is running 1F2)"));
  }
  for (int s = 0; s < 3; ++s) {
    EXPECT_EQ(static_cast<GatedStage&>(pipeline.stage(StageId(s))).commits, 0);
    EXPECT_EQ(static_cast<GatedStage&>(pipeline.stage(StageId(s))).aborts, 1);
  }
  pool.join();
}

TEST(Cancellation, AnEvaluationEndsTooByDeadlineSlotOrCall) {
  asio::thread_pool pool(2);
  enum class End { deadline, slot, call };
  for (const End end : {End::deadline, End::slot, End::call}) {
    auto gate = std::make_shared<Gate>(pool);
    Pipeline<Toy> pipeline(
        plan_of(3, 8), [&](const StageContext&) { return std::make_unique<GatedStage>(gate); },
        on(pool.get_executor()));
    auto batch = toy_batch(0, 8);
    if (end == End::deadline) batch.deadline = std::chrono::milliseconds(20);
    asio::cancellation_signal signal;
    std::vector<int> outputs;
    auto evaluation = pipeline.async_evaluate(
        batch, [&outputs](MicrobatchId mb, Toy) { outputs.push_back(mb.value); },
        asio::bind_cancellation_slot(signal.slot(), asio::use_future));
    gate->reached.get_future().get();
    if (end == End::deadline) std::this_thread::sleep_for(std::chrono::milliseconds(40));
    if (end == End::slot) signal.emit(asio::cancellation_type::total);
    if (end == End::call) pipeline.cancel();
    gate->open();
    EXPECT_THAT(outcome_of(std::move(evaluation)),
                end == End::deadline ? HasSubstr("exceeded its deadline of 0.02 s")
                                     : HasSubstr("the step was cancelled"));
    EXPECT_LE(outputs.size(), 2U);  // what came after 1F2 has not got through
    auto next = toy_batch(0, 2);    // one without a 1F2
    next.microbatches = 2;
    EXPECT_EQ(outcome_of(pipeline.async_evaluate(next, {}, asio::use_future)), "");
  }
  pool.join();
}

TEST(Cancellation, AStageThatThrowsBeforeTheDeadlineIsTheErrorAndNotTheDeadline) {
  asio::thread_pool pool(2);
  auto hooks = std::make_shared<ToyHooks>();
  hooks->on_enter = [](const Action& action) {
    if (to_string(action) == "1B2") throw std::domain_error("x");
  };
  Pipeline<Toy> pipeline(plan_of(3, 8), toy_factory(hooks), on(pool.get_executor()));
  auto batch = toy_batch(0, 8);
  batch.deadline = std::chrono::hours(1);
  EXPECT_EQ(outcome_of(pipeline.async_step(batch, asio::use_future)), "stage 1, mb 2, B failed: x");
  pool.join();  // nothing waits for the deadline either
}

}  // namespace
}  // namespace sluice
