// Single steps of the toy model on the deterministic executor, for the tests that look at how one ends.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include <sluice/pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>

#include "toy_model.hpp"

namespace sluice::test {

inline PlanConfig shape(int stages, int microbatches, std::optional<int> drain_depth = std::nullopt,
                        OrderMode order = OrderMode::fixed) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.drain_depth = drain_depth;
  config.order = order;
  return config;
}

/// What a step on the deterministic executor completed with.
struct Outcome {
  std::exception_ptr error;
  StepResult result;
  bool completed = false;
};

inline Outcome run_step(replay::DeterministicContext& context, Pipeline<Toy>& pipeline,
                        Batch<Toy> batch) {
  Outcome outcome;
  pipeline.async_step(std::move(batch), [&outcome](std::exception_ptr error, StepResult result) {
    outcome.error = error;
    outcome.result = result;
    outcome.completed = true;
  });
  context.run();
  return outcome;
}

inline std::string error_of(const Outcome& outcome) {
  return outcome.error ? text_of(outcome.error) : "no error";
}

}  // namespace sluice::test
