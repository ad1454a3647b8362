// Ranks on threads that they share: with other ranks, other pipelines and the host, fewer than there are ranks.
#include <sluice/pipeline.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/bind_executor.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/plain_stage.hpp>

#include "toy_pipeline.hpp"

namespace sluice {

/// A value that can be counted while it lives.
struct Counted {
  std::shared_ptr<int> life;
};

namespace {

using test::on;
using test::plan_of;
using test::Toy;
using test::toy_batch;
using test::toy_factory;
using test::ToyHooks;
using test::weights_of;

TEST(SharedThreads, TwoPipelinesShareOnePool) {
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

TEST(SharedThreads, ManyMoreStagesThanThreads) {
  for (const auto& [stages, threads] : {std::pair(8, 1U), std::pair(100, 4U), std::pair(300, 2U)}) {
    asio::thread_pool pool(threads);
    Pipeline<Toy> pipeline(plan_of(stages, 4), toy_factory(std::make_shared<ToyHooks>()),
                           on(pool.get_executor()));
    pipeline.async_step(toy_batch(0, 4), asio::use_future).get();
    EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(stages, 4, 1)) << stages;
    pool.join();
  }
}

using Strand = asio::strand<asio::thread_pool::executor_type>;

/// A stage that waits for a timer and then returns from another strand, every other time.
class WanderingStage final : public Stage<Toy> {
 public:
  WanderingStage(Strand home, Strand elsewhere, std::atomic<int>& misplaced)
      : home_(std::move(home)), elsewhere_(std::move(elsewhere)), misplaced_(misplaced) {}

  asio::awaitable<Toy> forward(ActionContext<Toy>& at, Toy input) override {
    look();
    co_await wander(at.action.mb.value % 2 == 0);
    co_return input;
  }
  asio::awaitable<Gradients<Toy>> backward(ActionContext<Toy>& at, Toy gradient) override {
    look();
    co_await wander(at.action.mb.value % 2 != 0);
    co_return Gradients<Toy>(gradient, Toy());
  }
  void accumulate(MicrobatchId, Toy) override { look(); }
  void prepare_update(std::int64_t) override { look(); }
  void commit() noexcept override { look(); }
  void abort() noexcept override {}

 private:
  void look() const {
    if (!home_.running_in_this_thread()) ++misplaced_;
  }
  asio::awaitable<void> wander(bool comes_back) {
    asio::steady_timer timer(home_, std::chrono::microseconds(50));
    co_await timer.async_wait(asio::use_awaitable);
    co_await asio::post(asio::bind_executor(elsewhere_, asio::use_awaitable));
    if (comes_back) co_await asio::post(asio::use_awaitable);
  }

  Strand home_;
  Strand elsewhere_;
  std::atomic<int>& misplaced_;
};

/// Delivers from another strand.
class DistantSource final : public BatchSource<Toy> {
 public:
  DistantSource(Strand elsewhere, std::shared_ptr<BatchSource<Toy>> near)
      : elsewhere_(std::move(elsewhere)), near_(std::move(near)) {}
  asio::awaitable<MicrobatchData<Toy>> next(MicrobatchId mb) override {
    co_await asio::post(asio::bind_executor(elsewhere_, asio::use_awaitable));
    auto data = co_await near_->next(mb);
    co_return std::move(data);
  }

 private:
  Strand elsewhere_;
  std::shared_ptr<BatchSource<Toy>> near_;
};

// A coroutine goes on where what it awaited has completed: a rank must not be taken along.
TEST(SharedThreads, AStageAndASourceMayReturnOnAnotherStrand) {
  asio::thread_pool pool(3);
  const Strand elsewhere = asio::make_strand(pool.get_executor());
  std::vector<Strand> homes;
  for (int r = 0; r < 3; ++r) homes.push_back(asio::make_strand(pool.get_executor()));
  std::atomic<int> misplaced{0};
  PipelineOptions options;
  options.executors = StageExecutors(
      [&homes](RankId rank) -> asio::any_io_executor { return homes[rank.index()]; });
  Pipeline<Toy> pipeline(
      plan_of(3, 16),
      [&](const StageContext& at) {
        return std::make_unique<WanderingStage>(homes[at.stage.index()], elsewhere, misplaced);
      },
      options);
  for (int step = 0; step < 20; ++step) {
    auto batch = toy_batch(step, 16);
    batch.source = std::make_shared<DistantSource>(elsewhere, batch.source);
    pipeline.async_step(std::move(batch), asio::use_future).get();
  }
  EXPECT_EQ(misplaced, 0);
  pool.join();
}

// What one pipeline's stage function brings to another pipeline does not wait for that stage function.
TEST(SharedThreads, ADeliveryInAnotherPipelinesTurnWakesItsOwnThread) {
  asio::thread_pool ours(1);
  asio::thread_pool theirs(1);
  constexpr std::chrono::hours always(1);
  std::mutex mutex;
  std::vector<Delivery> parcels;
  std::promise<void> came;
  PipelineOptions options;
  options.executors = strand_per_rank(theirs.get_executor(), {always, always});
  std::atomic<bool> keeps{false};
  options.carry = [&](const Action&, const Delivery& delivery) {
    if (!keeps.exchange(false)) return delivery();
    const std::scoped_lock lock(mutex);
    parcels.push_back(delivery);
    came.set_value();
  };
  std::promise<void> entered;
  std::atomic<bool> waited_for{false};
  auto hooks = std::make_shared<ToyHooks>();
  hooks->on_enter = [&](const Action& action) {
    if (action.stage == StageId(1) && waited_for.exchange(false)) entered.set_value();
  };
  Pipeline<Toy> distant(plan_of(2, 40), toy_factory(hooks), options);
  for (int step = 0; step < 3; ++step) {
    distant.async_step(toy_batch(step, 40), asio::use_future).get();
  }
  keeps = true;
  waited_for = true;
  auto late = distant.async_step(toy_batch(3, 40), asio::use_future);
  came.get_future().get();

  bool in_time = false;
  auto our_hooks = std::make_shared<ToyHooks>();
  our_hooks->on_enter = [&](const Action& action) {
    if (to_string(action) != "0F0") return;
    {
      const std::scoped_lock lock(mutex);
      for (const Delivery& delivery : parcels) delivery();
      parcels.clear();
    }
    in_time = entered.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  };
  PipelineOptions of_ours;
  of_ours.executors = strand_per_rank(ours.get_executor(), {always, always});
  Pipeline<Toy> near(plan_of(2, 4), toy_factory(our_hooks), of_ours);
  near.async_step(toy_batch(0, 4), asio::use_future).get();
  EXPECT_TRUE(in_time);
  late.get();
  ours.join();
  theirs.join();
}

// While one rank's executor is held, every other still runs: no two share a serialiser.
TEST(SharedThreads, NoRankOf300EverWaitsForTheExecutorOfAnother) {
  constexpr int ranks = 300;
  asio::thread_pool pool(2);
  const StageExecutors executors = strand_per_rank(pool.get_executor());
  std::vector<asio::any_io_executor> all;
  for (int r = 0; r < ranks; ++r) all.push_back(executors(RankId(r)));
  for (int held = 0; held < ranks; ++held) {
    std::latch others(ranks - 1);
    std::latch holding(1);
    std::promise<void> done;
    asio::post(all[static_cast<std::size_t>(held)], [&] {
      holding.count_down();
      others.wait();
      done.set_value();
    });
    holding.wait();
    for (int r = 0; r < ranks; ++r) {
      if (r != held)
        asio::post(all[static_cast<std::size_t>(r)], [&others] { others.count_down(); });
    }
    done.get_future().get();
  }
  pool.join();
}

// Every action wakes every rank for nothing, several times.
TEST(SharedThreads, WakeUpsThatBringNothingCostNothingButDecisions) {
  struct Waking {
    Toy forward(ActionContext<Toy>& at, Toy x) { return wake_all(at), x; }
    Gradients<Toy> backward(ActionContext<Toy>& at, Toy g) {
      return wake_all(at), Gradients<Toy>(g, Toy());
    }
    void wake_all(ActionContext<Toy>& at) {
      const std::scoped_lock lock(ranks->mutex);
      // Whoever answers for outside values is the rank; of the step that runs, as long as it runs.
      ranks->known[at.action.stage.index()] = static_cast<detail::RankCore*>(at.outside);
      for (detail::RankCore* rank : ranks->known) {
        for (int i = 0; i < 3 && rank != nullptr; ++i) rank->nudge();
      }
    }
    struct Ranks {
      std::mutex mutex;
      std::vector<detail::RankCore*> known;
    };
    Ranks* ranks;
  };
  Waking::Ranks ranks;
  asio::thread_pool pool(3);
  PipelineOptions options = on(pool.get_executor());
  std::vector<StepMetrics> seen;
  options.metrics = [&seen](const StepMetrics& metrics) { seen.push_back(metrics); };
  Pipeline<Toy> pipeline(
      plan_of(3, 100), [&](const StageContext&) { return make_stage<Toy>(Waking{&ranks}); },
      options);
  for (int step = 0; step < 10; ++step) {
    ranks.known.assign(3, nullptr);
    pipeline.async_step(toy_batch(step, 100), asio::use_future).get();
  }
  for (const StepMetrics& step : seen) {
    for (const RankMetrics& rank : step.ranks) EXPECT_EQ(rank.actions, 200);
  }
  pool.join();  // returns: nobody wakes anybody any more
}

TEST(SharedThreads, TwoHeavyStagesAmong100StarveNobodyAndTheWaitsAreReported) {
  asio::thread_pool pool(4);
  PipelineOptions options = on(pool.get_executor());
  std::vector<StepMetrics> seen;
  options.metrics = [&seen](const StepMetrics& metrics) { seen.push_back(metrics); };
  auto hooks = std::make_shared<ToyHooks>();
  hooks->on_enter = [](const Action& action) {
    if (action.stage != StageId(30) && action.stage != StageId(60)) return;
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
    while (std::chrono::steady_clock::now() < until) {
    }
  };
  Pipeline<Toy> pipeline(plan_of(100, 12), toy_factory(hooks), options);
  pipeline.async_step(toy_batch(0, 12), asio::use_future).get();
  EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(100, 12, 1));
  ASSERT_EQ(seen.size(), 1U);
  for (const RankMetrics& rank : seen[0].ranks) {
    EXPECT_EQ(rank.actions, 24);
    // Everybody else waits for the heavy ones, and the metrics say how long.
    EXPECT_GT(rank.input_wait_ns + rank.order_wait_ns, 0) << rank.rank.value;
    EXPECT_GT(rank.longest_wait_ns, 0) << rank.rank.value;
  }
  EXPECT_GE(seen[0].ranks[30].busy_ns, 24 * 300'000);
  pool.join();
}

// Fifty microbatches wait in front of a stage that fails: each ends, none is forgotten.
TEST(SharedThreads, AllWhoWaitForARankThatStopsAreSentAway) {
  asio::thread_pool pool(2);
  auto life = std::make_shared<int>(0);
  struct Blocking {
    asio::awaitable<Counted> forward(ActionContext<Counted>& at, Counted x) {
      if (at.action.stage == StageId(0)) ++*entered;
      if (at.action.stage == StageId(1)) {
        while (*entered < 50) co_await asio::post(asio::use_awaitable);
        throw std::runtime_error("closed");
      }
      co_return x;
    }
    Gradients<Counted> backward(ActionContext<Counted>&, Counted g) { return {g, Counted()}; }
    std::atomic<int>* entered;
  };
  std::atomic<int> entered{0};
  PlanConfig config;
  config.stages = 2;
  config.microbatches = 50;
  config.drain_depth = 51;  // all of them inside at once
  Pipeline<Counted> pipeline(
      derive_plan(config),
      [&](const StageContext&) { return make_stage<Counted>(Blocking{&entered}); },
      on(pool.get_executor()));
  const auto next = [&life](MicrobatchId) {
    return MicrobatchData<Counted>(Counted{life}, Counted{life}, 1);
  };
  std::string told;
  try {
    pipeline.async_step(make_batch<Counted>(50, next), asio::use_future).get();
  } catch (const StepError& error) {
    told = error.what();
  }
  EXPECT_EQ(told, "stage 1, mb 0, F failed: closed");
  EXPECT_EQ(entered, 50);
  pool.join();
  EXPECT_EQ(life.use_count(), 1);
}

}  // namespace
}  // namespace sluice
