// Cross-entropy over log-softmax: what the last stage of a classifier ends with.
//
// Rows are samples, columns are classes. Called by the last part of a model, on its own thread.
// Sums are doubles; everything is computed row by row, so a sample's result does not depend on the
// microbatch it sits in.
#pragma once

#include <cstdint>
#include <span>

#include <sluice/kernels/tensor.hpp>

namespace sluice::kernels {

/// Logits to log-probabilities, in place. `values` (samples, classes).
void log_softmax(Tensor& values);

/// Of one microbatch.
struct Score {
  double loss = 0;  ///< -log probability of the label, summed over the samples
  std::int64_t correct =
      0;  ///< samples whose most probable class (the first, if several) is the label
  std::int64_t samples = 0;
};

/// `log_probabilities` (samples, classes), `labels` s32 (samples). Throws std::invalid_argument when
/// the shapes disagree, and on a label outside 0..classes-1, naming the sample.
Score score(const Tensor& log_probabilities, const Tensor& labels);

/// The gradient of the mean loss over `batch_samples` samples with respect to the logits, in place
/// of the log-probabilities. `batch_samples` is the global batch's, so that microbatches add up.
void cross_entropy_backward(Tensor& log_probabilities, const Tensor& labels,
                            std::int64_t batch_samples);

}  // namespace sluice::kernels
