// Pipelines in a server of the embedder's: whose context it is, who goes first, and what stays behind.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/pipeline.hpp>

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

TEST(Embedding, AContextDestroyedBeforeThePipelineLeavesNothingBehind) {
  // Coroutines asleep in every place they can sleep in: parked ranks, waiting tickets, a suspended
  // stage function, the step itself. AddressSanitizer counts what is left.
  for (int handlers : {0, 1, 5, 20, 100}) {
    auto context = std::make_unique<asio::io_context>();
    PipelineOptions options;
    options.executors = strand_per_rank(context->get_executor());
    auto hooks = std::make_shared<ToyHooks>();
    hooks->yields = [](const Action& action) { return action.stage.value == 1 ? 1000 : 0; };
    Pipeline<Toy> pipeline(plan_of(3, 8), toy_factory(hooks), options);
    bool completed = false;
    pipeline.async_step(toy_batch(0, 8),
                        [&completed](std::exception_ptr, StepResult) { completed = true; });
    for (int i = 0; i < handlers; ++i) context->run_one();
    context.reset();
    EXPECT_FALSE(completed);
    EXPECT_EQ(pipeline.wait_report(), "");
    pipeline.cancel();
    try {
      pipeline.async_step(toy_batch(0, 8), asio::use_future);
      FAIL() << "there is nothing to run on";
    } catch (const std::logic_error& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("the execution context of its executors has been destroyed"));
    }
  }
}

TEST(Embedding, AStuckStageFunctionDoesNotKeepAHostThatStopsItsContext) {
  auto pool = std::make_unique<asio::thread_pool>(2);
  auto gate = std::make_shared<Gate>(*pool);
  {
    Pipeline<Toy> pipeline(
        plan_of(3, 8), [&](const StageContext&) { return std::make_unique<GatedStage>(gate); },
        on(pool->get_executor()));
    pipeline.async_step(toy_batch(0, 8), [](std::exception_ptr, StepResult) {});
    gate->reached.get_future().get();
    pool->stop();
    pool->join();
    gate.reset();  // the stages still hold it, and the timer the pool
  }
  pool.reset();
}

TEST(Embedding, AForkedChildIsToldAtOnce) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  Pipeline<Toy> pipeline(plan_of(2, 4), toy_factory(std::make_shared<ToyHooks>()), options);
  const pid_t child = fork();
  if (child == 0) {
    try {
      pipeline.async_step(toy_batch(0, 4), [](std::exception_ptr, StepResult) {});
    } catch (const std::logic_error& error) {
      _exit(std::string(error.what()).find("fork before you make executors") != std::string::npos
                ? 0
                : 2);
    }
    _exit(1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// What a child process that does `work` and then exits as programs do ends with.
int exit_status_of(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // a hang is a failure
    work();
    std::exit(0);  // static objects are destroyed
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(Embedding, AForkedChildMayDestroyAPipelineWithAWatchdog) {
  asio::thread_pool pool(2);
  PipelineOptions options = on(pool.get_executor());
  options.stall_after = std::chrono::milliseconds(1);
  options.on_stall = [](const std::string&) {};
  auto pipeline = std::make_unique<Pipeline<Toy>>(
      plan_of(2, 4), toy_factory(std::make_shared<ToyHooks>()), options);
  pipeline->async_step(toy_batch(0, 4), asio::use_future).get();
  for (int i = 0; i < 20; ++i) {  // now and then while the watchdog looks
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      pipeline.reset();
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  pool.join();
}

TEST(Embedding, PipelinesWithStaticStorageLetTheProcessExitInEitherOrder) {
  const auto run = [](Pipeline<Toy>& pipeline) {
    pipeline.async_step(toy_batch(0, 4), asio::use_future).get();
  };
  const auto make = [](asio::thread_pool& pool) {
    return Pipeline<Toy>(plan_of(3, 4), toy_factory(std::make_shared<ToyHooks>()),
                         on(pool.get_executor()));
  };
  EXPECT_EQ(exit_status_of([&] {
              static asio::thread_pool pool(2);
              static Pipeline<Toy> one = make(pool);
              static Pipeline<Toy> two = make(pool);
              run(one);
              run(two);
            }),
            0);
  // The pool goes first here: the pipelines are told, and wait for nothing.
  EXPECT_EQ(exit_status_of([&] {
              static std::unique_ptr<Pipeline<Toy>> one;
              static std::unique_ptr<Pipeline<Toy>> two;
              static asio::thread_pool pool(2);
              one = std::make_unique<Pipeline<Toy>>(make(pool));
              two = std::make_unique<Pipeline<Toy>>(make(pool));
              run(*two);
              run(*one);
              one->async_step(toy_batch(0, 4), [](std::exception_ptr, StepResult) {});
            }),
            0);
}

}  // namespace
}  // namespace sluice
