#include "toy_run.hpp"

#include <exception>
#include <stdexcept>
#include <utility>

#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/replay/deterministic_executor.hpp>

namespace sluice::test {

namespace {

Turns turns_of(const Machine& machine) {
  using std::chrono::hours;
  switch (machine.turns) {
    case 1: return {hours(0), hours(0)};
    case 2: return {hours(1), hours(0)};
    case 3: return {hours(1), hours(1)};
    default: return {};
  }
}

}  // namespace

ToyOutcome run_toy(const ToyRun& run, std::shared_ptr<Director> director, Machine machine,
                   const std::function<bool()>& more) {
  ToyOutcome outcome;
  auto hooks = std::make_shared<ToyHooks>();
  hooks->on_enter = run.on_enter;
  hooks->yields = [machine](const Action& action) {
    return static_cast<int>(KeyedRandom(machine.seed, 0, to_string(action), 0, "yields").below(4));
  };
  if (run.yields) hooks->yields = run.yields;
  const StageFactory<Toy> factory = [&run, hooks](const StageContext& context) {
    auto stage = std::make_unique<ToyStage>(run.weight(context.stage), hooks);
    if (run.prepare_stage) run.prepare_stage(*stage, context.stage);
    return stage;
  };
  PipelineOptions options;
  options.director = std::move(director);
  options.log = [&outcome](std::span<const Event> events) {
    outcome.logs.emplace_back(events.begin(), events.end());
  };
  const auto all = [&](const auto& run_one) {
    Pipeline<Toy> pipeline(derive_plan(run.config), run.factory ? run.factory : factory, options);
    if (run.made) run.made(pipeline);
    for (int step = 0; step < run.steps && more(); ++step) {
      const int microbatches = run.microbatches ? run.microbatches(step) : run.config.microbatches;
      auto batch = toy_batch(step, microbatches, run.available);
      batch.microbatches = microbatches;
      const std::exception_ptr error = run_one(pipeline, std::move(batch));
      outcome.errors.push_back(error ? text_of(error) : "");
    }
    for (int s = 0; !run.factory && s < run.config.stages; ++s) {
      outcome.weights.push_back(static_cast<ToyStage&>(pipeline.stage(StageId(s))).weight());
    }
  };
  if (machine.threads == 0) {
    replay::DeterministicContext context(replay::seeded_picks(machine.seed));
    options.executors = replay::any_order(context);
    all([&context](Pipeline<Toy>& pipeline, Batch<Toy> batch) {
      std::exception_ptr result = std::make_exception_ptr(std::logic_error("never completed"));
      pipeline.async_step(std::move(batch),
                          [&result](std::exception_ptr error, StepResult) { result = error; });
      context.run();
      return result;
    });
  } else {
    asio::thread_pool pool(machine.threads);
    options.executors = strand_per_rank(pool.get_executor(), turns_of(machine));
    all([](Pipeline<Toy>& pipeline, Batch<Toy> batch) -> std::exception_ptr {
      try {
        pipeline.async_step(std::move(batch), asio::use_future).get();
        return nullptr;
      } catch (...) {
        return std::current_exception();
      }
    });
    pool.join();
  }
  return outcome;
}

}  // namespace sluice::test
