// What the replayer's tests record and replay: adaptive runs of the toy, on machines that differ.
#pragma once

#include <vector>

#include "recorded_run.hpp"

namespace sluice::test {

inline const std::vector<Machine> machines{{0, 0}, {0, 11}, {1, 3}, {2, 5}, {4, 9}};

inline ToyRun adaptive_run(int stages = 4, int microbatches = 9, int steps = 2) {
  ToyRun run;
  run.config = toy_config(stages, microbatches, OrderMode::adaptive);
  run.steps = steps;
  return run;
}

}  // namespace sluice::test
