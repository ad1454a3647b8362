// What the adaptive order buys when stages do not keep to their costs: makespans in virtual time, so the
// figures are exact and the same on every machine. Counters are ratios to the plan's makespan.
#include <algorithm>

#include <benchmark/benchmark.h>

#include <sluice/fuzz/virtual_run.hpp>
#include <sluice/random.hpp>

namespace sluice {
namespace {

/// A seeded number in [0, 1) for each action.
double draw(std::int64_t seed, const Action& action) {
  return KeyedRandom(static_cast<std::uint64_t>(seed), 0, to_string(action), 0, "jitter").uniform();
}

void compare(benchmark::State& state, int drain_depth, bool every_stage) {
  PlanConfig config;
  config.stages = 4;
  config.microbatches = 32;
  config.drain_depth = drain_depth;
  config.costs.forward = {Time::from_units(1)};
  config.costs.backward = {Time::from_units(2)};
  double fixed = 0;
  double adaptive = 0;
  double worst = 0;
  std::int64_t seed = 0;
  for (auto _ : state) {
    const fuzz::Slowness slowness = [&](const Action& action) {
      if (!every_stage && action.stage != StageId(static_cast<std::int64_t>(seed % 4))) return 1.0;
      return draw(seed, action) < 0.5 ? 1.3 : 1.0;
    };
    config.order = OrderMode::fixed;
    const double one = fuzz::makespan_in_virtual_time(config, slowness);
    config.order = OrderMode::adaptive;
    const double other = fuzz::makespan_in_virtual_time(config, slowness);
    fixed += one;
    adaptive += other;
    worst = std::max(worst, other / one);
    ++seed;
  }
  const double runs = static_cast<double>(seed) * derive_plan(config).timeline.makespan.units();
  state.counters["fixed"] = fixed / runs;
  state.counters["adaptive"] = adaptive / runs;
  state.counters["worst"] = worst;  // adaptive over fixed, of any seed
}
BENCHMARK_CAPTURE(compare, one_stage_30_percent_slower_at_random_W3, 3, false)->Iterations(500);
BENCHMARK_CAPTURE(compare, one_stage_30_percent_slower_at_random_W5, 5, false)->Iterations(500);
BENCHMARK_CAPTURE(compare, every_stage_30_percent_slower_at_random_W3, 3, true)->Iterations(500);
BENCHMARK_CAPTURE(compare, every_stage_30_percent_slower_at_random_W5, 5, true)->Iterations(500);

}  // namespace
}  // namespace sluice
