// What a timeline costs, with costs that differ by stage, edge and microbatch. DrainOrder is the static
// order, Law lets the law decide, both metrics only, and both should stay linear from the smallest to the
// largest shape; the Equal ones have equal stages. StartTimes keeps every action; OrderTimeline prices a
// list and Validation checks the same list. `lockstep_ratio.py` sets them beside plain Python simulators
// of the same law with the same costs.
#include <cstdint>
#include <cstdlib>
#include <utility>

#include <benchmark/benchmark.h>

#include <sluice/law.hpp>
#include <sluice/schedule_check.hpp>
#include <sluice/timeline.hpp>

namespace sluice {
namespace {

/// Every stage, edge and microbatch has its own; the same in every run, and in lockstep_ratio.py.
Costs unequal(int stages, int microbatches) {
  std::uint64_t state = 1;
  const auto between = [&state](std::int64_t least, std::int64_t most) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return least +
           static_cast<std::int64_t>((state >> 33U) % static_cast<std::uint64_t>(most - least));
  };
  const auto units = [&](std::int64_t least, std::int64_t most) {
    return between(least, most) * Time::from_units(1);
  };
  Costs costs;
  for (int s = 0; s < stages; ++s) {
    costs.forward.push_back(units(5, 15));
    costs.backward.push_back(units(10, 30));
    if (s > 0) costs.link.push_back(units(1, 4));
  }
  for (int mb = 0; mb < microbatches; ++mb) costs.sizes.push_back(between(1, 5));
  return costs;
}

Costs equal(int, int) {
  Costs costs;
  costs.backward = {Time::from_units(2)};
  costs.link = {Time::from_units(1)};
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

void run_drain_order(benchmark::State& state, Costs (*costs_of)(int, int)) {
  const auto stages = static_cast<int>(state.range(0));
  const auto microbatches = static_cast<int>(state.range(1));
  const Costs costs = costs_of(stages, microbatches);
  Time makespan;
  for ([[maybe_unused]] const auto _ : state) {
    makespan = simulate_static(stages, microbatches, stages - 1, costs, metrics()).makespan;
    benchmark::DoNotOptimize(makespan);
  }
  count(state, stages, microbatches);
  state.counters["makespan"] = makespan.units();
}

void run_law(benchmark::State& state, Costs (*costs_of)(int, int)) {
  const auto stages = static_cast<int>(state.range(0));
  const auto microbatches = static_cast<int>(state.range(1));
  const Costs costs = costs_of(stages, microbatches);
  const auto credits = law::credits(stages, stages - 1);
  Time makespan;
  for ([[maybe_unused]] const auto _ : state) {
    makespan = simulate_law(stages, microbatches, credits, costs, metrics()).makespan;
    benchmark::DoNotOptimize(makespan);
  }
  count(state, stages, microbatches);
  state.counters["makespan"] = makespan.units();
}

void three_decades(benchmark::internal::Benchmark* benchmark) {
  for (const auto& [stages, microbatches] :
       {std::pair(16, 256), std::pair(16, 1024), std::pair(64, 1024), std::pair(64, 16384),
        std::pair(256, 16384), std::pair(1024, 16384)}) {
    benchmark->Args({stages, microbatches});
  }
  benchmark->Unit(benchmark::kMicrosecond)->Complexity(benchmark::oN);
}

void DrainOrder(benchmark::State& state) { run_drain_order(state, unequal); }
BENCHMARK(DrainOrder)->Apply(three_decades);

void Law(benchmark::State& state) { run_law(state, unequal); }
BENCHMARK(Law)->Apply(three_decades);

void DrainOrderEqual(benchmark::State& state) { run_drain_order(state, equal); }
BENCHMARK(DrainOrderEqual)->Args({16, 256})->Unit(benchmark::kMicrosecond);

void LawEqual(benchmark::State& state) { run_law(state, equal); }
BENCHMARK(LawEqual)->Args({16, 256})->Unit(benchmark::kMicrosecond);

void StartTimes(benchmark::State& state) {
  const Costs costs = unequal(64, 100'000);
  for ([[maybe_unused]] const auto _ : state) {
    benchmark::DoNotOptimize(simulate_static(64, 100'000, 63, costs).actions.data());
  }
  count(state, 64, 100'000);
}
BENCHMARK(StartTimes)->Unit(benchmark::kMillisecond);

Schedule listed(int stages, int microbatches) {
  return {static_order(stages, microbatches, stages - 1), one_stage_a_rank(stages), {}};
}

void OrderTimeline(benchmark::State& state) {
  const Schedule schedule = listed(64, 4096);
  const Costs costs = unequal(64, 4096);
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
