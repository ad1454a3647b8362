#include <sluice/fuzz/virtual_run.hpp>

#include <cmath>
#include <memory>

#include <asio/use_awaitable.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>

namespace sluice::fuzz {
namespace {

/// A unit of the costs, in nanoseconds of virtual time.
constexpr double unit_ns = 1e6;

struct World {
  replay::DeterministicContext context;
  Costs costs;
  const Slowness& slowness;
};

class SleepingStage final : public Stage<int> {
 public:
  SleepingStage(World& world, StageId stage)
      : world_(world),
        forward_(world.costs.forward[stage.index()]),
        backward_(world.costs.backward[stage.index()]) {}

  asio::awaitable<int> forward(ActionContext<int>& context, int input) override {
    co_await sleep(context.action, forward_);
    co_return input;
  }
  asio::awaitable<Gradients<int>> backward(ActionContext<int>& context, int gradient) override {
    co_await sleep(context.action, backward_);
    co_return Gradients<int>(gradient, 0);
  }
  void accumulate(MicrobatchId, int) override {}
  void prepare_update(std::int64_t) override {}
  void commit() noexcept override {}
  void abort() noexcept override {}

 private:
  asio::awaitable<void> sleep(Action action, Time planned) {
    const auto ns = std::llround(planned.units() * unit_ns * world_.slowness(action));
    co_await world_.context.async_sleep(ns, asio::use_awaitable);
  }

  World& world_;
  Time forward_;
  Time backward_;
};

class EmptySource final : public BatchSource<int> {
  asio::awaitable<MicrobatchData<int>> next(MicrobatchId) override {
    co_return MicrobatchData<int>(0, 0, 1);
  }
};

}  // namespace

double makespan_in_virtual_time(const PlanConfig& config, const Slowness& slowness) {
  World world{{}, complete(config.costs, config.stages), slowness};
  PipelineOptions options;
  options.executors = replay::any_order(world.context);
  options.clock = [&world] { return world.context.now_ns(); };
  options.carry = [&world](const Action& action, const Delivery& delivery) {
    const bool forward = action.phase == Phase::forward;
    const Time link = world.costs.link[action.stage.index() - (forward ? 1 : 0)];
    if (link == Time()) return delivery();
    world.context.call_after(std::llround(link.units() * unit_ns), delivery);
  };
  double makespan = 0;
  options.metrics = [&makespan](const StepMetrics& metrics) {
    makespan = static_cast<double>(metrics.makespan_ns) / unit_ns;
  };
  Pipeline<int> pipeline(
      derive_plan(config),
      [&world](const StageContext& at) { return std::make_unique<SleepingStage>(world, at.stage); },
      options);
  std::exception_ptr failed;
  pipeline.async_step(Batch<int>(std::make_shared<EmptySource>(), config.microbatches),
                      [&failed](std::exception_ptr error, StepResult) { failed = error; });
  world.context.run();
  if (failed) std::rethrow_exception(failed);
  return makespan;
}

}  // namespace sluice::fuzz
