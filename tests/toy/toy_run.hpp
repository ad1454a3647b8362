// Runs the toy model for some steps, under any director, on any number of threads: what the tests and the
// properties of runtime, recorder, replayer and diff share.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sluice/pipeline.hpp>

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
  int turns = 0;  ///< of its threads' ranks: 0 as usual; 1 of one action; 2 long; 3 long and shared
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
  std::function<void(Pipeline<Toy>&)> made;  ///< the same, for what its host does while it runs
};

struct ToyOutcome {
  std::vector<std::string> errors;       ///< per step; empty: none
  std::vector<std::vector<Event>> logs;  ///< per step, in causal order
  std::vector<double> weights;           ///< after the last step
};

/// Runs until `run.steps` are through or `more`, asked before each, says no.
ToyOutcome run_toy(
    const ToyRun& run, std::shared_ptr<Director> director, Machine machine,
    const std::function<bool()>& more = [] { return true; });

}  // namespace sluice::test
