// Pipelines in a server of the embedder's: whose context it is, who goes first, and what stays behind.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/bind_executor.hpp>
#include <asio/detached.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/deferred.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/plain_stage.hpp>

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
using test::ToyStage;
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

/// The toy's stage, but for 1F2, which first reads a byte from a socket.
struct Reading {
  asio::awaitable<Toy> forward(ActionContext<Toy>& at, Toy input) {
    entered->insert(to_string(at.action));
    if (to_string(at.action) == "1F2") {
      asio::posix::stream_descriptor socket(co_await asio::this_coro::executor, dup(from));
      char byte = 0;
      auto buffer = asio::buffer(&byte, 1);
      co_await socket.async_read_some(buffer, asio::use_awaitable);
      EXPECT_EQ(byte, 'x');
    }
    co_return co_await toy->forward(at, input);
  }
  asio::awaitable<Gradients<Toy>> backward(ActionContext<Toy>& at, Toy gradient) {
    entered->insert(to_string(at.action));
    return toy->backward(at, gradient);
  }
  void accumulate(MicrobatchId mb, Toy contribution) { toy->accumulate(mb, contribution); }
  void commit() { toy->commit(); }
  void abort() { toy->abort(); }

  std::unique_ptr<ToyStage> toy;
  std::set<std::string>* entered;
  int from;
};

TEST(Embedding, AStageThatWaitsForASocketKeepsNoOtherFromRunning) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  asio::io_context context(1);  // one thread: whoever blocked it would keep all
  PipelineOptions options;
  options.executors = strand_per_rank(context.get_executor());
  std::set<std::string> entered;
  std::vector<ToyStage*> toys;
  Pipeline<Toy> pipeline(
      plan_of(3, 8),
      [&](const StageContext& at) {
        auto toy =
            std::make_unique<ToyStage>(test::toy_weight(at.stage), std::make_shared<ToyHooks>());
        toys.push_back(toy.get());
        return make_stage<Toy>(Reading{std::move(toy), &entered, sockets[0]});
      },
      options);
  auto step = pipeline.async_step(toy_batch(0, 8), asio::use_future);
  context.poll();  // all that can be done without the byte
  EXPECT_THAT(pipeline.wait_report(), HasSubstr("running 1F2"));
  EXPECT_THAT(entered, ::testing::IsSupersetOf({"1F2", "0B0", "0F3", "2B1"}));
  EXPECT_FALSE(entered.contains("2F2"));
  ASSERT_EQ(write(sockets[1], "x", 1), 1);
  context.run();
  step.get();
  std::vector<double> weights;
  for (const ToyStage* toy : toys) weights.push_back(toy->weight());
  EXPECT_EQ(weights, test::toy_plain_loop(3, 8, 1));
  close(sockets[0]);
  close(sockets[1]);
}

TEST(Embedding, AnyCompletionTokenDoes) {
  asio::thread_pool pool(2);
  auto hooks = std::make_shared<ToyHooks>();
  std::atomic<bool> armed{false};
  hooks->on_enter = [&armed](const Action& action) {
    if (armed && to_string(action) == "1B2") throw std::runtime_error("x");
  };
  Pipeline<Toy> pipeline(plan_of(3, 4), toy_factory(hooks), on(pool.get_executor()));
  asio::io_context mine;  // of this thread alone
  const auto here = std::this_thread::get_id();
  std::vector<std::string> told;
  const auto tell = [&](std::exception_ptr error, StepResult) {
    told.push_back(error ? text_of(error) : "fine");
    EXPECT_EQ(std::this_thread::get_id(), here);
  };

  // It comes where it is wanted, and that context waits for it.
  pipeline.async_step(toy_batch(0, 4), asio::bind_executor(mine, tell));
  mine.run();
  EXPECT_THAT(told, ::testing::ElementsAre("fine"));

  // An error as a value, not thrown.
  for (const bool fails : {true, false}) {
    armed = fails;
    mine.restart();
    const auto host = [&]() -> asio::awaitable<void> {
      Batch<Toy> batch = toy_batch(1, 4);
      auto [error, result] = co_await pipeline.async_step(
          std::move(batch), asio::experimental::as_tuple(asio::use_awaitable));
      tell(error, result);
    };
    asio::co_spawn(mine, host, asio::detached);
    mine.run();
  }
  EXPECT_THAT(told, ::testing::ElementsAre("fine", "stage 1, mb 2, B failed: x", "fine"));

  // What is deferred begins when it is called, and is nothing when it is not.
  {
    auto dropped = pipeline.async_step(toy_batch(7, 4), asio::experimental::deferred);
  }
  auto deferred = pipeline.async_step(toy_batch(2, 4), asio::experimental::deferred);
  EXPECT_EQ(pipeline.wait_report(), "");
  mine.restart();
  std::move(deferred)(asio::bind_executor(mine, tell));
  mine.run();
  EXPECT_EQ(told.size(), 4U);
  EXPECT_EQ(told.back(), "fine");

  // And nobody may want to know.
  pipeline.async_step(toy_batch(3, 4), asio::detached);
  pool.join();
  EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(3, 4, 4));
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

TEST(Embedding, APipelineMayGoInItsOwnStallReport) {
  asio::io_context context;  // which nobody runs, so that the step stalls at once
  std::promise<void> gone;
  std::unique_ptr<Pipeline<Toy>> pipeline;
  std::atomic<bool> first{true};
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  options.stall_after = std::chrono::milliseconds(1);
  options.on_stall = [&](const std::string&) {
    if (!first.exchange(false)) return;
    pipeline.reset();
    gone.set_value();
  };
  pipeline = std::make_unique<Pipeline<Toy>>(plan_of(2, 4),
                                             toy_factory(std::make_shared<ToyHooks>()), options);
  std::string told;
  pipeline->async_step(toy_batch(0, 4), [&told](std::exception_ptr error, StepResult) {
    told = error ? text_of(error) : "fine";
  });
  context.run_one();
  gone.get_future().get();
  context.run();
  EXPECT_EQ(told, "the step was cancelled");
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
