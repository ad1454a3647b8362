// What the adaptive order buys when stages do not keep to their costs: makespans in virtual time, so the
// figures are exact and the same on every machine. Counters are ratios to the plan's makespan.
#include <memory>
#include <utility>
#include <vector>

#include <asio/use_awaitable.hpp>
#include <benchmark/benchmark.h>

#include <sluice/pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>

namespace sluice {
namespace {

constexpr std::int64_t forward_ns = 1'000'000;
constexpr std::int64_t backward_ns = 2'000'000;

/// How much longer than planned an action takes.
using Slowness = std::function<double(const Action&)>;

class SleepingStage final : public Stage<int> {
 public:
  SleepingStage(replay::DeterministicContext& context, const Slowness& slowness)
      : context_(context), slowness_(slowness) {}

  asio::awaitable<int> forward(ActionContext<int>& context, int input) override {
    co_await sleep(context.action, forward_ns);
    co_return input;
  }
  asio::awaitable<Gradients<int>> backward(ActionContext<int>& context, int gradient) override {
    co_await sleep(context.action, backward_ns);
    co_return Gradients<int>(gradient, 0);
  }
  void accumulate(MicrobatchId, int) override {}
  void prepare_update(std::int64_t) override {}
  void commit() noexcept override {}
  void abort() noexcept override {}

 private:
  asio::awaitable<void> sleep(Action action, std::int64_t planned_ns) {
    const double taken = static_cast<double>(planned_ns) * slowness_(action);
    co_await context_.async_sleep(static_cast<std::int64_t>(taken), asio::use_awaitable);
  }

  replay::DeterministicContext& context_;
  const Slowness& slowness_;
};

class EmptySource final : public BatchSource<int> {
  asio::awaitable<MicrobatchData<int>> next(MicrobatchId) override {
    co_return MicrobatchData<int>(0, 0, 1);
  }
};

double makespan(PlanConfig config, OrderMode order, const Slowness& slowness) {
  config.order = order;
  replay::DeterministicContext context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  options.clock = [&context] { return context.now_ns(); };
  double measured = 0;
  options.metrics = [&measured](const StepMetrics& metrics) {
    measured = static_cast<double>(metrics.makespan_ns) / static_cast<double>(forward_ns);
  };
  const Plan plan = derive_plan(config);
  Pipeline<int> pipeline(
      plan,
      [&](const StageContext&) { return std::make_unique<SleepingStage>(context, slowness); },
      options);
  pipeline.async_step(Batch<int>(std::make_shared<EmptySource>(), config.microbatches),
                      [](std::exception_ptr error, StepResult) {
                        if (error) std::rethrow_exception(error);
                      });
  context.run();
  return measured / plan.timeline.makespan.units();
}

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
    const Slowness slowness = [&](const Action& action) {
      if (!every_stage && action.stage != StageId(static_cast<std::int64_t>(seed % 4))) return 1.0;
      return draw(seed, action) < 0.5 ? 1.3 : 1.0;
    };
    const double one = makespan(config, OrderMode::fixed, slowness);
    const double other = makespan(config, OrderMode::adaptive, slowness);
    fixed += one;
    adaptive += other;
    worst = std::max(worst, other / one);
    ++seed;
  }
  const auto runs = static_cast<double>(seed);
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
