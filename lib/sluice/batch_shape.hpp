// How a global batch is cut: replicas, accumulation, microbatches, samples.
//
// global = micro x M x accumulation x replicas, or the training that was asked for is not the one
// that runs. Called while a configuration is checked; pure functions, any executor.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <sluice/finding.hpp>

namespace sluice {

/// In samples. All 1 or more.
struct BatchShape {
  std::int64_t global = 1;        ///< what an update is made of
  std::int64_t micro = 1;         ///< samples in a microbatch
  std::int64_t accumulation = 1;  ///< steps of the pipeline to an update
  std::int64_t replicas = 1;      ///< pipelines side by side
  /// Whether the last microbatch of a step may be short; weights are by sample.
  bool ragged = false;
};

/// The samples of an update with this M, or the largest number there is where they are more still.
std::int64_t whole_batch(const BatchShape& batch, std::int64_t microbatches);

/// The M with which `batch` is whole; nothing when there is none.
std::optional<std::int64_t> microbatches_of(const BatchShape& batch);

/// `batch`: an error that shows every factor and the nearest values that fit; nothing when they
/// agree.
std::optional<Finding> check_batch(const BatchShape& batch, std::int64_t microbatches);

/// `batch`, when nobody says M: an error when no M makes `batch` whole.
std::optional<Finding> check_batch(const BatchShape& batch);

/// The samples of each of the M microbatches of a step: 3, 3, 2. Requires a batch without finding.
std::vector<std::int64_t> samples_of(const BatchShape& batch, std::int64_t microbatches);

/// `batch`, for a batch that grows from step to step: an error that names the first of `ramp` which
/// no M makes whole, with everything but `global` as in `batch`.
std::optional<Finding> check_ramp(const BatchShape& batch, const std::vector<std::int64_t>& ramp);

}  // namespace sluice
