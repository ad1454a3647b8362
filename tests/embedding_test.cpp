// What an embedder does to a pipeline in a server of its own, and what must come of it.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/pipeline.hpp>

#include "toy_model.hpp"

namespace sluice {
namespace {

using test::Toy;
using test::toy_batch;
using test::toy_factory;
using test::ToyHooks;
using test::ToyStage;
using ::testing::HasSubstr;

Plan plan_of(int stages, int microbatches) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  return derive_plan(config);
}

std::vector<double> weights_of(Pipeline<Toy>& pipeline) {
  std::vector<double> weights;
  for (int s = 0; s < pipeline.plan().stages; ++s) {
    weights.push_back(static_cast<ToyStage&>(pipeline.stage(StageId(s))).weight());
  }
  return weights;
}

PipelineOptions on(asio::any_io_executor executor) {
  PipelineOptions options;
  options.executors = strand_per_rank(std::move(executor));
  return options;
}

TEST(Embedding, TheHostsContextRunsExactlyAsLongAsTheStep) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  Pipeline<Toy> pipeline(plan_of(4, 8), toy_factory(std::make_shared<ToyHooks>()), options);
  EXPECT_EQ(context.run(), 0U);  // between steps the pipeline keeps nothing alive
  context.restart();
  bool completed = false;
  auto batch = toy_batch(0, 8);
  batch.deadline = std::chrono::hours(1);  // nor does a deadline that was not needed
  pipeline.async_step(batch, [&completed](std::exception_ptr error, StepResult) {
    EXPECT_EQ(error, nullptr);
    completed = true;
  });
  context.run();
  EXPECT_TRUE(completed);
  EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(4, 8, 1));
}

TEST(Embedding, AHostThatKeepsItsLoopAliveIsToldOfTheErrorAndGoesOn) {
  asio::io_context context;
  const auto guard = asio::make_work_guard(context);
  // No try, no catch: nothing may escape into the host's threads.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&context] { context.run(); });

  auto hooks = std::make_shared<ToyHooks>();
  std::atomic<bool> armed{true};
  hooks->on_enter = [&armed](const Action& action) {
    if (armed && to_string(action) == "2F3") throw std::runtime_error("x");
  };
  Pipeline<Toy> pipeline(plan_of(4, 8), toy_factory(hooks), on(context.get_executor()));
  std::promise<std::string> told;
  pipeline.async_step(toy_batch(0, 8), [&told](std::exception_ptr error, StepResult) {
    told.set_value(text_of(error));
  });
  EXPECT_EQ(told.get_future().get(), "stage 2, mb 3, F failed: x");

  armed = false;
  std::promise<void> served;  // the loop still serves others, and the next step
  asio::post(context, [&served] { served.set_value(); });
  served.get_future().get();
  pipeline.async_step(toy_batch(0, 8), asio::use_future).get();
  EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(4, 8, 1));

  context.stop();
  for (auto& thread : threads) thread.join();
}

TEST(Embedding, TwoPipelinesShareOnePool) {
  asio::thread_pool pool(4);
  Pipeline<Toy> one(plan_of(4, 16), toy_factory(std::make_shared<ToyHooks>()),
                    on(pool.get_executor()));
  Pipeline<Toy> two(plan_of(4, 16), toy_factory(std::make_shared<ToyHooks>()),
                    on(pool.get_executor()));
  for (int step = 0; step < 10; ++step) {
    auto first = one.async_step(toy_batch(step, 16), asio::use_future);
    auto second = two.async_step(toy_batch(step, 16), asio::use_future);
    first.get();
    second.get();
  }
  EXPECT_EQ(weights_of(one), test::toy_plain_loop(4, 16, 10));
  EXPECT_EQ(weights_of(two), test::toy_plain_loop(4, 16, 10));
  pool.join();
}

TEST(Embedding, ManyMoreStagesThanThreads) {
  for (const auto& [stages, threads] : {std::pair(8, 1U), std::pair(100, 4U), std::pair(300, 2U)}) {
    asio::thread_pool pool(threads);
    Pipeline<Toy> pipeline(plan_of(stages, 4), toy_factory(std::make_shared<ToyHooks>()),
                           on(pool.get_executor()));
    pipeline.async_step(toy_batch(0, 4), asio::use_future).get();
    EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(stages, 4, 1)) << stages;
    pool.join();
  }
}

/// A stage that goes somewhere else and comes back: a timer, then a helper on another strand.
class WanderingStage final : public Stage<Toy> {
 public:
  WanderingStage(asio::any_io_executor elsewhere, std::atomic<int>& wrong_place)
      : elsewhere_(std::move(elsewhere)), wrong_place_(wrong_place) {}

  asio::awaitable<Toy> forward(ActionContext<Toy>&, Toy input) override {
    co_await wander();
    co_return input;
  }
  asio::awaitable<Gradients<Toy>> backward(ActionContext<Toy>&, Toy gradient) override {
    co_await wander();
    co_return Gradients<Toy>(gradient, Toy());
  }
  void accumulate(MicrobatchId, Toy) override {}
  void prepare_update(std::int64_t) override {}
  void commit() noexcept override {}
  void abort() noexcept override {}

 private:
  asio::awaitable<void> wander() {
    const asio::any_io_executor home = co_await asio::this_coro::executor;
    asio::steady_timer timer(home, std::chrono::microseconds(50));
    co_await timer.async_wait(asio::use_awaitable);
    co_await asio::post(asio::bind_executor(elsewhere_, asio::use_awaitable));
    co_await asio::post(asio::use_awaitable);
    const asio::any_io_executor back = co_await asio::this_coro::executor;
    if (back != home || running_.exchange(true)) ++wrong_place_;
    running_ = false;
  }

  asio::any_io_executor elsewhere_;
  std::atomic<int>& wrong_place_;
  std::atomic<bool> running_{false};
};

TEST(Embedding, AStageMaySuspendOnATimerAndOnAnotherStrand) {
  asio::thread_pool pool(3);
  const asio::any_io_executor elsewhere = asio::make_strand(pool);
  std::atomic<int> wrong_place{0};
  Pipeline<Toy> pipeline(
      plan_of(3, 8),
      [&](const StageContext&) { return std::make_unique<WanderingStage>(elsewhere, wrong_place); },
      on(pool.get_executor()));
  pipeline.async_step(toy_batch(0, 8), asio::use_future).get();
  EXPECT_EQ(wrong_place, 0);
  pool.join();
}

/// Suspends in 1F2 until it is let go.
struct Gate {
  explicit Gate(asio::thread_pool& pool) : timer(pool, std::chrono::hours(1)) {}
  /// From any thread, once it is reached.
  void open() {
    asio::post(home, [this] { timer.cancel(); });
  }

  asio::steady_timer timer;
  std::promise<void> reached;
  asio::any_io_executor home;  // the rank's, which the timer is used on; set before `reached`
};

class GatedStage final : public Stage<Toy> {
 public:
  explicit GatedStage(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  asio::awaitable<Toy> forward(ActionContext<Toy>& context, Toy input) override {
    if (to_string(context.action) == "1F2") {
      gate_->home = co_await asio::this_coro::executor;
      gate_->reached.set_value();
      try {
        co_await gate_->timer.async_wait(asio::use_awaitable);
      } catch (const std::system_error&) {  // let go
      }
    }
    co_return input;
  }
  asio::awaitable<Gradients<Toy>> backward(ActionContext<Toy>&, Toy gradient) override {
    co_return Gradients<Toy>(gradient, Toy());
  }
  void accumulate(MicrobatchId, Toy) override {}
  void prepare_update(std::int64_t) override {}
  void commit() noexcept override { ++commits; }
  void abort() noexcept override { ++aborts; }

  int commits = 0;
  int aborts = 0;

 private:
  std::shared_ptr<Gate> gate_;
};

TEST(Embedding, ADeadlineEndsTheStepAndSaysWhereEveryoneStood) {
  asio::thread_pool pool(2);
  auto gate = std::make_shared<Gate>(pool);
  Pipeline<Toy> pipeline(
      plan_of(3, 8),
      [&](const StageContext&) { return std::make_unique<GatedStage>(gate); },
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

TEST(Embedding, AWatchdogSaysWhoWaitsForWhomAndTheRunGoesOn) {
  asio::thread_pool pool(2);
  auto gate = std::make_shared<Gate>(pool);
  PipelineOptions options = on(pool.get_executor());
  std::promise<std::string> stalled;
  std::atomic<bool> told{false};
  options.stall_after = std::chrono::milliseconds(10);
  options.on_stall = [&](const std::string& report) {
    if (!told.exchange(true)) stalled.set_value(report);
  };
  Pipeline<Toy> pipeline(
      plan_of(3, 8),
      [&](const StageContext&) { return std::make_unique<GatedStage>(gate); }, options);
  EXPECT_EQ(pipeline.wait_report(), "");
  auto step = pipeline.async_step(toy_batch(0, 8), asio::use_future);
  const std::string report = stalled.get_future().get();
  EXPECT_THAT(report, HasSubstr("rank 1: 3 actions run, running 1F2"));
  EXPECT_THAT(report, HasSubstr("rank 2: 4 actions run, the last 2B1; waits for 2F2"));
  gate->reached.get_future().get();
  gate->open();
  step.get();
  pool.join();
}

TEST(Embedding, BlockedThreadsAreSeenByTheWatchdog) {
  asio::thread_pool pool(1);
  std::promise<void> release;
  auto hooks = std::make_shared<ToyHooks>();
  hooks->on_enter = [released = release.get_future().share()](const Action& action) {
    if (to_string(action) == "0F1") released.wait();  // forbidden: blocks the pool's only thread
  };
  PipelineOptions options = on(pool.get_executor());
  std::promise<std::string> stalled;
  std::atomic<bool> told{false};
  options.stall_after = std::chrono::milliseconds(10);
  options.on_stall = [&](const std::string& report) {
    if (!told.exchange(true)) stalled.set_value(report);
  };
  Pipeline<Toy> pipeline(plan_of(2, 4), toy_factory(hooks), options);
  auto step = pipeline.async_step(toy_batch(0, 4), asio::use_future);
  EXPECT_THAT(stalled.get_future().get(), HasSubstr("running 0F1"));
  release.set_value();
  step.get();
  pool.join();
}

TEST(Embedding, ACancellationSlotAtTheEdgeEndsTheStep) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  auto hooks = std::make_shared<ToyHooks>();
  hooks->yields = [](const Action&) { return 10; };
  Pipeline<Toy> pipeline(plan_of(4, 16), toy_factory(hooks), options);
  const auto before = weights_of(pipeline);
  asio::cancellation_signal signal;
  std::string told;
  pipeline.async_step(toy_batch(0, 16),
                      asio::bind_cancellation_slot(
                          signal.slot(), [&told](std::exception_ptr error, StepResult) {
                            told = error ? text_of(error) : "no error";
                          }));
  for (int i = 0; i < 40; ++i) context.run_one();
  signal.emit(asio::cancellation_type::total);
  context.run();
  EXPECT_EQ(told, "the step was cancelled");
  EXPECT_EQ(weights_of(pipeline), before);
}

TEST(Embedding, ThePipelineMayGoWhileAStepRuns) {
  asio::thread_pool pool(2);
  std::future<StepResult> step;
  {
    auto hooks = std::make_shared<ToyHooks>();
    hooks->yields = [](const Action&) { return 3; };
    Pipeline<Toy> pipeline(plan_of(4, 64), toy_factory(hooks), on(pool.get_executor()));
    step = pipeline.async_step(toy_batch(0, 64), asio::use_future);
  }
  // Its destructor has asked the step to end; whether the step was faster is a matter of timing.
  try {
    step.get();
  } catch (const StepError& error) {
    EXPECT_EQ(error.kind(), StepError::Kind::cancelled);
  }
  pool.join();
}

TEST(Embedding, AnExecutorIsRequired) {
  EXPECT_THROW(
      Pipeline<Toy>(plan_of(2, 2), toy_factory(std::make_shared<ToyHooks>()), PipelineOptions()),
      std::invalid_argument);
}

}  // namespace
}  // namespace sluice
