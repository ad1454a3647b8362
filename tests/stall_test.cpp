// What a watchdog says of a step in which nothing moves: who waits for whom, whose thread is held, who is
// suspended; and the two things that a stage function must not do.
#include <sluice/pipeline.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <semaphore>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

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
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Options whose watchdog keeps the first report that `wanted` likes.
class FirstReport {
 public:
  explicit FirstReport(std::function<bool(const std::string&)> wanted)
      : wanted_(std::move(wanted)) {}

  PipelineOptions options(asio::thread_pool& pool) {
    PipelineOptions options = on(pool.get_executor());
    options.stall_after = std::chrono::milliseconds(10);
    options.on_stall = [this](const std::string& report) {
      if (wanted_(report) && !told_.exchange(true)) report_.set_value(report);
    };
    return options;
  }
  std::string get() { return report_.get_future().get(); }

 private:
  std::function<bool(const std::string&)> wanted_;
  std::promise<std::string> report_;
  std::atomic<bool> told_{false};
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Stall, AWatchdogSaysWhoWaitsForWhomAndTheRunGoesOn) {
  asio::thread_pool pool(2);
  auto gate = std::make_shared<Gate>(pool);
  FirstReport stalled([](const std::string& report) { return contains(report, "suspended"); });
  Pipeline<Toy> pipeline(
      plan_of(3, 8), [&](const StageContext&) { return std::make_unique<GatedStage>(gate); },
      stalled.options(pool));
  EXPECT_EQ(pipeline.wait_report(), "");
  auto step = pipeline.async_step(toy_batch(0, 8), asio::use_future);
  EXPECT_THAT(stalled.get(),
              AllOf(HasSubstr("rank 1: 3 actions run, running 1F2"),
                    HasSubstr("rank 2: 4 actions run, the last 2B1; waits for 2F2"),
                    HasSubstr("suspended, until something outside of sluice happens: 1F2")));
  gate->reached.get_future().get();
  gate->open();
  step.get();
  pool.join();
}

TEST(Stall, AHostThatDoesNotRunItsExecutorIsTold) {
  asio::io_context context;
  std::promise<std::string> stalled;
  std::atomic<bool> told{false};
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  options.stall_after = std::chrono::milliseconds(5);
  options.on_stall = [&](const std::string& report) {
    if (!told.exchange(true)) stalled.set_value(report);
  };
  Pipeline<Toy> pipeline(plan_of(2, 4), toy_factory(std::make_shared<ToyHooks>()), options);
  auto step = pipeline.async_step(toy_batch(0, 4), asio::use_future);
  for (int i = 0; i < 3; ++i) context.run_one();  // and no more
  EXPECT_THAT(stalled.get_future().get(), HasSubstr("no rank answers: nobody runs their executor"));
  context.run();
  step.get();
}

// Two threads, four stages; two stage functions block on something that only another stage would bring.
TEST(Stall, BlockedThreadsAreNamedWithTheStagesThatBlockThem) {
  asio::thread_pool pool(2);
  std::promise<void> release;
  auto hooks = std::make_shared<ToyHooks>();
  hooks->on_enter = [released = release.get_future().share()](const Action& action) {
    // Forbidden: each holds one of the pool's threads.
    if (to_string(action) == "0F3" || to_string(action) == "1F1") released.wait();
  };
  FirstReport stalled([](const std::string& report) { return contains(report, "0F3, 1F1"); });
  Pipeline<Toy> pipeline(plan_of(4, 8), toy_factory(hooks), stalled.options(pool));
  auto step = pipeline.async_step(toy_batch(0, 8), asio::use_future);
  EXPECT_THAT(
      stalled.get(),
      AllOf(HasSubstr("no rank answers: every thread of their executor is held, by 0F3, 1F1"),
            HasSubstr("must not block its thread on what another stage does")));
  release.set_value();
  step.get();
  pool.join();
}

// Stage 0 suspends with a host's lock in its hands; stage 1 wants it, and blocks its thread.
TEST(Stall, ALockHeldAcrossASuspensionShowsWhoBlocksAndWhoIsSuspended) {
  asio::thread_pool pool(3);
  std::binary_semaphore lock(1);  // a host's, which like a mutex one holds at a time
  struct Locking {
    asio::awaitable<Toy> forward(ActionContext<Toy>& at, Toy x) {
      if (to_string(at.action) == "0F1") {
        const asio::any_io_executor home = co_await asio::this_coro::executor;
        asio::steady_timer timer(home, std::chrono::hours(1));
        lock->acquire();  // forbidden
        let_go->set_value([&timer, home] { asio::post(home, [&timer] { timer.cancel(); }); });
        try {
          co_await timer.async_wait(asio::use_awaitable);
        } catch (const std::system_error&) {  // let go
        }
        lock->release();
      } else if (to_string(at.action) == "1F0") {
        locked->wait();
        lock->acquire();
        lock->release();
      }
      co_return x;
    }
    Gradients<Toy> backward(ActionContext<Toy>&, Toy g) { return Gradients<Toy>(g, Toy()); }

    std::binary_semaphore* lock;
    std::promise<std::function<void()>>* let_go;
    std::shared_future<std::function<void()>>* locked;
  };
  std::promise<std::function<void()>> let_go;
  std::shared_future<std::function<void()>> locked = let_go.get_future().share();
  FirstReport stalled([](const std::string& report) { return contains(report, "suspended"); });
  Pipeline<Toy> pipeline(
      plan_of(2, 4),
      [&](const StageContext&) { return make_stage<Toy>(Locking{&lock, &let_go, &locked}); },
      stalled.options(pool));
  auto step = pipeline.async_step(toy_batch(0, 4), asio::use_future);
  EXPECT_THAT(stalled.get(),
              AllOf(HasSubstr("holding a thread, computing or blocked: 1F0"),
                    HasSubstr("suspended, until something outside of sluice happens: 0F1"),
                    HasSubstr("nor hold a lock while it is suspended")));
  locked.get()();
  step.get();
  pool.join();
}

}  // namespace
}  // namespace sluice
