// What an action costs beyond its stage function: S=4, M=64, stage functions that do nothing; compare the
// counter `per_action`. Peers in the same run: Asio's bare `co_await post`, and oneTBB's static flow graph
// of the same dependencies, which can neither suspend, nor fail, nor record, nor choose.
#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/plain_stage.hpp>
#include <sluice/replay/recorder.hpp>

#include "empty_stage.hpp"

namespace sluice {
namespace {

constexpr int stages = 4;
constexpr int microbatches = 64;
constexpr int actions = 2 * stages * microbatches;

Plan plan_of(int stages_of_plan, OrderMode order) {
  PlanConfig config;
  config.stages = stages_of_plan;
  config.microbatches = microbatches;
  config.order = order;
  return derive_plan(config);
}

Pipeline<int> empty_pipeline(Plan plan, StageExecutors executors,
                             std::shared_ptr<Director> director = nullptr) {
  PipelineOptions options;
  options.executors = std::move(executors);
  options.director = std::move(director);
  return Pipeline<int>(
      std::move(plan), [](const StageContext&) { return std::make_unique<EmptyStage>(); }, options);
}

Batch<int> empty_batch() { return Batch<int>(std::make_shared<EmptySource>(), microbatches); }

/// Time per action, whatever an iteration does.
void report(benchmark::State& state, double actions_per_iteration) {
  state.counters["per_action"] =
      benchmark::Counter(actions_per_iteration, benchmark::Counter::kIsIterationInvariantRate |
                                                    benchmark::Counter::kInvert);
}

void run_on_one_thread(benchmark::State& state, Pipeline<int>& pipeline,
                       asio::io_context& context) {
  for (auto _ : state) {
    pipeline.async_step(empty_batch(), [](std::exception_ptr error, StepResult) {
      if (error) std::rethrow_exception(error);
    });
    context.run();
    context.restart();
  }
  report(state, actions);
}

void one_thread(benchmark::State& state, OrderMode order) {
  asio::io_context context(1);
  auto pipeline = empty_pipeline(plan_of(stages, order), single_thread(context.get_executor()));
  run_on_one_thread(state, pipeline, context);
}
BENCHMARK_CAPTURE(one_thread, fixed, OrderMode::fixed);
BENCHMARK_CAPTURE(one_thread, adaptive, OrderMode::adaptive);

/// A recording in a new file, which goes when this goes.
struct Recorded {
  explicit Recorded(const Plan& plan) {
    std::filesystem::remove(path);
    replay::RecorderOptions options;
    options.mode = replay::RecordingMode::full;
    recorder = std::make_shared<replay::Recorder>(
        path, plan, std::make_shared<LiveDirector>(policy_for(plan)), options);
  }
  ~Recorded() { std::filesystem::remove(path); }

  std::filesystem::path path = std::filesystem::temp_directory_path() / "runtime_bench.slrec";
  std::shared_ptr<replay::Recorder> recorder;
};

void one_thread_recording(benchmark::State& state) {
  asio::io_context context(1);
  const Plan plan = plan_of(stages, OrderMode::fixed);
  const Recorded recorded(plan);
  auto pipeline = empty_pipeline(plan, single_thread(context.get_executor()), recorded.recorder);
  run_on_one_thread(state, pipeline, context);
}
BENCHMARK(one_thread_recording);

void run_on_a_pool(benchmark::State& state, Pipeline<int>& pipeline, int actions_of_step) {
  for (auto _ : state) pipeline.async_step(empty_batch(), asio::use_future).get();
  report(state, actions_of_step);
}

void pool_of_2(benchmark::State& state, OrderMode order) {
  asio::thread_pool pool(2);
  auto pipeline = empty_pipeline(plan_of(stages, order), strand_per_rank(pool.get_executor()));
  run_on_a_pool(state, pipeline, actions);
  pool.join();
}
BENCHMARK_CAPTURE(pool_of_2, fixed, OrderMode::fixed)->UseRealTime();
BENCHMARK_CAPTURE(pool_of_2, adaptive, OrderMode::adaptive)->UseRealTime();

void pool_of_2_recording(benchmark::State& state) {
  asio::thread_pool pool(2);
  const Plan plan = plan_of(stages, OrderMode::fixed);
  const Recorded recorded(plan);
  auto pipeline = empty_pipeline(plan, strand_per_rank(pool.get_executor()), recorded.recorder);
  run_on_a_pool(state, pipeline, actions);
  pool.join();
}
BENCHMARK(pool_of_2_recording)->UseRealTime();

void pool_of_2_with_256_stages(benchmark::State& state) {
  asio::thread_pool pool(2);
  auto pipeline =
      empty_pipeline(plan_of(256, OrderMode::fixed), strand_per_rank(pool.get_executor()));
  run_on_a_pool(state, pipeline, 2 * 256 * microbatches);
  pool.join();
}
BENCHMARK(pool_of_2_with_256_stages)->UseRealTime();

/// What a second thread brings: stage functions that compute for so many microseconds.
void pool_with_work(benchmark::State& state) {
  struct Busy {
    int forward(ActionContext<int>&, int input) const { return work(), input; }
    Gradients<int> backward(ActionContext<int>&, int gradient) const {
      return work(), Gradients<int>(gradient, 0);
    }
    void work() const {
      const auto end = std::chrono::steady_clock::now() + length;
      while (std::chrono::steady_clock::now() < end) {
      }
    }
    std::chrono::microseconds length;
  };
  asio::thread_pool pool(static_cast<std::size_t>(state.range(0)));
  PipelineOptions options;
  options.executors = strand_per_rank(pool.get_executor());
  Pipeline<int> pipeline(
      plan_of(stages, OrderMode::fixed),
      [&](const StageContext&) {
        return make_stage<int>(Busy{std::chrono::microseconds(state.range(1))});
      },
      options);
  run_on_a_pool(state, pipeline, actions);
  pool.join();
}
BENCHMARK(pool_with_work)
    ->ArgNames({"threads", "us"})
    ->ArgsProduct({{1, 2}, {1, 2, 5, 10, 100}})
    ->UseRealTime();

asio::awaitable<void> bare_posts() {
  for (int i = 0; i < actions; ++i) co_await asio::post(asio::use_awaitable);
}

/// A peer: one hop through the executor's queue for every action, and nothing else.
void peer_asio_post(benchmark::State& state) {
  asio::io_context context(1);
  for (auto _ : state) {
    asio::co_spawn(context, bare_posts(), asio::detached);
    context.run();
    context.restart();
  }
  report(state, actions);
}
BENCHMARK(peer_asio_post);

/// A peer: the dependencies of fill and drain as a graph that is made once.
void peer_tbb_flow_graph(benchmark::State& state) {
  using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;
  tbb::task_arena arena(static_cast<int>(state.range(0)));
  arena.execute([&state] {
    tbb::flow::graph graph;
    tbb::flow::broadcast_node<tbb::flow::continue_msg> start(graph);
    std::vector<std::unique_ptr<Node>> nodes;
    const auto node = [&](int stage, bool backward, int mb) -> Node& {
      return *nodes[static_cast<std::size_t>((mb * stages + stage) * 2 + (backward ? 1 : 0))];
    };
    for (int i = 0; i < actions; ++i) {
      nodes.push_back(std::make_unique<Node>(
          graph, [](const tbb::flow::continue_msg& message) { return message; }));
    }
    for (int mb = 0; mb < microbatches; ++mb) {
      for (int s = 0; s < stages; ++s) {
        if (s + 1 < stages) {
          tbb::flow::make_edge(node(s, false, mb), node(s + 1, false, mb));
          tbb::flow::make_edge(node(s + 1, true, mb), node(s, true, mb));
        } else {
          tbb::flow::make_edge(node(s, false, mb), node(s, true, mb));
        }
        if (mb > 0) {
          tbb::flow::make_edge(node(s, false, mb - 1), node(s, false, mb));
          tbb::flow::make_edge(node(s, true, mb - 1), node(s, true, mb));
        }
      }
    }
    tbb::flow::make_edge(start, node(0, false, 0));
    for (auto _ : state) {
      start.try_put(tbb::flow::continue_msg());
      graph.wait_for_all();
    }
    report(state, actions);
  });
}
BENCHMARK(peer_tbb_flow_graph)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace sluice
