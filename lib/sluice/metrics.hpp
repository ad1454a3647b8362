// Metrics: how the ranks spent a step, for whoever watches a training server.
//
// Counted by each rank on its own executor; handed to `PipelineOptions::metrics` at the end of every
// step and evaluation, normal or failed. Times are nanoseconds of the pipeline's clock; what a rank did not
// spend busy or waiting, up to its last exit, the runtime and the threads' other work have taken.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/step_error.hpp>
#include <sluice/step_result.hpp>

namespace sluice {

/// What is a stage's own, on a rank that may have several. Queue, decisions and waits are the rank's.
struct StageMetrics {
  StageId stage;
  std::int64_t actions = 0;  ///< run
  std::int64_t busy_ns = 0;  ///< inside actions, suspensions of stage functions included
  int peak_held = 0;         ///< microbatches
};

struct RankMetrics {
  RankId rank;
  std::int64_t actions = 0;          ///< run
  std::int64_t decisions = 0;        ///< times the director was asked
  std::int64_t busy_ns = 0;          ///< inside actions, suspensions of stage functions included
  std::int64_t input_wait_ns = 0;    ///< asleep with nothing ready
  std::int64_t order_wait_ns = 0;    ///< asleep although an input was here: credit, slot or order
  std::int64_t longest_wait_ns = 0;  ///< of either kind or both, until the next action or the end
  std::int64_t first_enter_ns = 0;   ///< of the clock
  std::int64_t last_exit_ns = 0;
  int peak_held = 0;                 ///< microbatches, over all stages of the rank
  int peak_ready = 0;                ///< longest queue in front of the rank
  std::vector<StageMetrics> stages;  ///< that have run anything, ascending
};

struct StepMetrics {
  std::int64_t step = 0;                 ///< of an evaluation the next training step's
  bool training = true;                  ///< false: an evaluation
  int microbatches = 0;                  ///< M
  std::optional<StepResult> result;      ///< loss, samples, figures; absent when it failed
  std::optional<StepError::Kind> error;  ///< why; absent when it did not
  std::int64_t makespan_ns = 0;          ///< first enter to last exit
  double bubble_measured = 0;  ///< share of the makespan in which the average rank was not busy
  double bubble_planned = 0;   ///< the same in the plan's timeline; 0 of an evaluation
  std::vector<RankMetrics> ranks;
};

/// Makespan and measured bubble of such ranks, which it keeps.
StepMetrics metrics_of(std::vector<RankMetrics> ranks);

}  // namespace sluice
