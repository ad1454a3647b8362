// What a timeline costs. DrainOrder is the static order with costs that differ by stage and by
// microbatch and a link time, metrics only, and should stay linear from the smallest to the largest
// shape; StartTimes keeps every action; Law lets the law decide; OrderTimeline prices a list and
// Validation checks the same list. `lockstep_ratio.py` sets DrainOrder and Law beside a plain Python
// simulator of the same law.
#include <cstdint>
#include <cstdlib>
#include <random>

#include <benchmark/benchmark.h>

#include <sluice/law.hpp>
#include <sluice/schedule_check.hpp>
#include <sluice/timeline.hpp>

namespace sluice {
namespace {

/// Every stage, edge and microbatch has its own; the same in every run.
Costs random_costs(int stages, int microbatches) {
  std::mt19937_64 random(1);
  const auto between = [&random](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least));
  };
  Costs costs;
  for (int s = 0; s < stages; ++s) {
    costs.forward.push_back(Time::from_millionths(between(500'000, 1'500'000)));
    costs.backward.push_back(Time::from_millionths(between(1'000'000, 3'000'000)));
    if (s > 0) costs.link.push_back(Time::from_millionths(between(1, 300'000)));
  }
  for (int mb = 0; mb < microbatches; ++mb) costs.sizes.push_back(between(1, 20));
  return costs;
}

SimulationOptions metrics() {
  SimulationOptions options;
  options.detail = Detail::metrics;
  return options;
}

void count(benchmark::State& state, int stages, int microbatches) {
  const std::int64_t pairs = std::int64_t{stages} * microbatches;
  state.SetComplexityN(pairs);
  state.counters["per_action"] = benchmark::Counter(
      2 * static_cast<double>(pairs),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["timelines"] =
      benchmark::Counter(1, benchmark::Counter::kIsIterationInvariantRate);
}

void DrainOrder(benchmark::State& state) {
  const auto stages = static_cast<int>(state.range(0));
  const auto microbatches = static_cast<int>(state.range(1));
  const Costs costs = random_costs(stages, microbatches);
  for ([[maybe_unused]] const auto _ : state) {
    benchmark::DoNotOptimize(
        simulate_static(stages, microbatches, stages - 1, costs, metrics()).makespan);
  }
  count(state, stages, microbatches);
}
BENCHMARK(DrainOrder)
    ->Args({16, 256})
    ->Args({16, 1024})
    ->Args({64, 1024})
    ->Args({64, 16384})
    ->Args({256, 16384})
    ->Args({1024, 16384})
    ->Unit(benchmark::kMicrosecond)
    ->Complexity(benchmark::oN);

void StartTimes(benchmark::State& state) {
  const Costs costs = random_costs(64, 100'000);
  for ([[maybe_unused]] const auto _ : state) {
    benchmark::DoNotOptimize(simulate_static(64, 100'000, 63, costs).actions.data());
  }
  count(state, 64, 100'000);
}
BENCHMARK(StartTimes)->Unit(benchmark::kMillisecond);

void Law(benchmark::State& state) {
  const auto stages = static_cast<int>(state.range(0));
  const auto microbatches = static_cast<int>(state.range(1));
  const Costs costs = random_costs(stages, microbatches);
  const auto credits = law::credits(stages, stages - 1);
  for ([[maybe_unused]] const auto _ : state) {
    benchmark::DoNotOptimize(
        simulate_law(stages, microbatches, credits, costs, metrics()).makespan);
  }
  count(state, stages, microbatches);
}
BENCHMARK(Law)->Args({16, 256})->Args({64, 4096})->Unit(benchmark::kMicrosecond);

Schedule listed(int stages, int microbatches) {
  return {static_order(stages, microbatches, stages - 1), one_stage_a_rank(stages), {}};
}

void OrderTimeline(benchmark::State& state) {
  const Schedule schedule = listed(64, 4096);
  const Costs costs = random_costs(64, 4096);
  for ([[maybe_unused]] const auto _ : state) {
    benchmark::DoNotOptimize(simulate_order(schedule, 4096, costs, metrics()).makespan);
  }
  count(state, 64, 4096);
}
BENCHMARK(OrderTimeline)->Unit(benchmark::kMillisecond);

void Validation(benchmark::State& state) {
  const Schedule schedule = listed(64, 4096);
  for ([[maybe_unused]] const auto _ : state) {
    if (check_schedule(schedule, 4096)) std::abort();
  }
  count(state, 64, 4096);
}
BENCHMARK(Validation)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
