// Runs the toy model for some steps, under any director, on any number of threads: what the tests and the
// properties of runtime, recorder, replayer and diff share.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>

#include "toy_model.hpp"

namespace sluice::test {

inline PlanConfig toy_config(int stages, int microbatches, OrderMode order = OrderMode::fixed) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.order = order;
  return config;
}

/// How a run is carried out; what is computed does not depend on it.
struct Machine {
  unsigned threads = 0;    ///< 0: the deterministic executor
  std::uint64_t seed = 0;  ///< of its picks, and of the yields inside actions
};

/// What is computed.
struct ToyRun {
  PlanConfig config;
  int steps = 1;
  std::function<void(const Action&)> on_enter;         ///< may throw
  std::function<int(const Action&)> yields;            ///< instead of those of the machine's seed
  std::function<double(StageId)> weight = toy_weight;  ///< before the first step
  int available = 1 << 30;                             ///< microbatches the source has
  std::function<int(int step)> microbatches;           ///< where M differs from step to step
  StageFactory<Toy> factory;                           ///< instead of the toy's stages
  std::function<void(ToyStage&, StageId)> prepare_stage;  ///< for what a test plants
};

struct ToyOutcome {
  std::vector<std::string> errors;       ///< per step; empty: none
  std::vector<std::vector<Event>> logs;  ///< per step, in causal order
  std::vector<double> weights;           ///< after the last step
};

/// Runs until `run.steps` are through or `more`, asked before each, says no.
inline ToyOutcome run_toy(
    const ToyRun& run, std::shared_ptr<Director> director, Machine machine,
    const std::function<bool()>& more = [] { return true; }) {
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
    options.executors = single_thread(context.get_executor());
    all([&context](Pipeline<Toy>& pipeline, Batch<Toy> batch) {
      std::exception_ptr result = std::make_exception_ptr(std::logic_error("never completed"));
      pipeline.async_step(std::move(batch),
                          [&result](std::exception_ptr error, StepResult) { result = error; });
      context.run();
      return result;
    });
  } else {
    asio::thread_pool pool(machine.threads);
    options.executors = strand_per_rank(pool.get_executor());
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
