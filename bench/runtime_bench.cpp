// What an action costs beyond its stage function: S=4, M=64, stage functions that do nothing, beside
// Asio's bare `co_await post` in the same run. Compare the counter `per_action`.
#include <memory>
#include <utility>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>
#include <benchmark/benchmark.h>

#include <sluice/pipeline.hpp>

namespace sluice {
namespace {

constexpr int stages = 4;
constexpr int microbatches = 64;
constexpr int actions = 2 * stages * microbatches;

class EmptyStage final : public Stage<int> {
  asio::awaitable<int> forward(ActionContext<int>&, int input) override { co_return input; }
  asio::awaitable<Gradients<int>> backward(ActionContext<int>&, int gradient) override {
    co_return Gradients<int>(gradient, 0);
  }
  void accumulate(MicrobatchId, int) override {}
  void prepare_update(std::int64_t) override {}
  void commit() noexcept override {}
  void abort() noexcept override {}
};

class EmptySource final : public BatchSource<int> {
  asio::awaitable<MicrobatchData<int>> next(MicrobatchId) override {
    co_return MicrobatchData<int>(0, 0, 1);
  }
};

Pipeline<int> empty_pipeline(OrderMode order, StageExecutors executors) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.order = order;
  PipelineOptions options;
  options.executors = std::move(executors);
  options.clock = nullptr;
  return Pipeline<int>(
      derive_plan(config),
      [](const StageContext&) { return std::make_unique<EmptyStage>(); }, options);
}

Batch<int> empty_batch() { return Batch<int>(std::make_shared<EmptySource>(), microbatches); }

/// Time per action, whatever an iteration does.
void report(benchmark::State& state, double actions_per_iteration) {
  state.counters["per_action"] = benchmark::Counter(
      actions_per_iteration,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void step_on_one_thread(benchmark::State& state, OrderMode order) {
  asio::io_context context(1);
  Pipeline<int> pipeline = empty_pipeline(order, single_thread(context.get_executor()));
  for (auto _ : state) {
    pipeline.async_step(empty_batch(), [](std::exception_ptr error, StepResult) {
      if (error) std::rethrow_exception(error);
    });
    context.run();
    context.restart();
  }
  report(state, actions);
}
BENCHMARK_CAPTURE(step_on_one_thread, fixed, OrderMode::fixed);
BENCHMARK_CAPTURE(step_on_one_thread, adaptive, OrderMode::adaptive);

void step_on_a_pool(benchmark::State& state, OrderMode order) {
  asio::thread_pool pool(static_cast<std::size_t>(state.range(0)));
  Pipeline<int> pipeline = empty_pipeline(order, strand_per_rank(pool.get_executor()));
  for (auto _ : state) pipeline.async_step(empty_batch(), asio::use_future).get();
  report(state, actions);
  pool.join();
}
BENCHMARK_CAPTURE(step_on_a_pool, fixed, OrderMode::fixed)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(step_on_a_pool, adaptive, OrderMode::adaptive)->Arg(1)->Arg(2)->UseRealTime();

asio::awaitable<void> bare_posts() {
  for (int i = 0; i < actions; ++i) co_await asio::post(asio::use_awaitable);
}

/// The peer: one hop through the executor's queue for every action, and nothing else.
void bare_post_on_one_thread(benchmark::State& state) {
  asio::io_context context(1);
  for (auto _ : state) {
    asio::co_spawn(context, bare_posts(), asio::detached);
    context.run();
    context.restart();
  }
  report(state, actions);
}
BENCHMARK(bare_post_on_one_thread);

}  // namespace
}  // namespace sluice
