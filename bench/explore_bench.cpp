// How fast the explorer is: runs a second of the real runtime with empty stages, each in another order and
// checked; and states a second of the exhaustive search.
#include <benchmark/benchmark.h>

#include <sluice/policy.hpp>
#include <sluice/replay/pipeline_program.hpp>
#include <sluice/replay/state_search.hpp>

namespace sluice::replay {
namespace {

PlanConfig config_of(const benchmark::State& state, OrderMode order) {
  PlanConfig config;
  config.stages = static_cast<int>(state.range(0));
  config.microbatches = static_cast<int>(state.range(1));
  config.order = order;
  return config;
}

void runs(benchmark::State& state, OrderMode order, StrategyName strategy) {
  Scenario scenario;
  scenario.config = config_of(state, order);
  const PipelineProgram explored = pipeline_program(scenario);
  ExploreOptions options;
  options.strategy = strategy;
  options.runs = 100;
  for (auto _ : state) {
    const Exploration result = explore(explored.program, options);
    if (!result.failures.empty()) state.SkipWithError(result.failures.front().text.c_str());
    ++options.seed;
  }
  state.SetItemsProcessed(state.iterations() * options.runs);
}
BENCHMARK_CAPTURE(runs, fixed_random, OrderMode::fixed, StrategyName::random)
    ->Args({2, 4})
    ->Args({4, 8})
    ->Args({8, 32});
BENCHMARK_CAPTURE(runs, adaptive_random, OrderMode::adaptive, StrategyName::random)
    ->Args({2, 4})
    ->Args({4, 8})
    ->Args({8, 32});
BENCHMARK_CAPTURE(runs, fixed_pct, OrderMode::fixed, StrategyName::pct)
    ->Args({2, 4})
    ->Args({4, 8})
    ->Args({8, 32});

void states(benchmark::State& state, OrderMode order) {
  PlanConfig config = config_of(state, order);
  config.slots = 2;
  const Plan plan = derive_plan(config);
  const auto policy = policy_for(plan);
  std::int64_t count = 0;
  for (auto _ : state) count += search_states(plan, *policy).states;
  state.SetItemsProcessed(count);
  state.counters["states"] =
      benchmark::Counter(static_cast<double>(count) / static_cast<double>(state.iterations()));
}
BENCHMARK_CAPTURE(states, fixed, OrderMode::fixed)->Args({4, 4})->Args({4, 16});
BENCHMARK_CAPTURE(states, adaptive, OrderMode::adaptive)->Args({4, 4})->Args({4, 16});

}  // namespace
}  // namespace sluice::replay
