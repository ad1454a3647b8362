// PlainLoop: training with no pipeline, no stages and no runtime. What every pipelined run must equal.
//
// Microbatch by microbatch, forward then backward, gradients added in ascending order, one update a
// step: the definition of the right numbers, written to be read. It shares layers, loss and optimizer
// with the pipeline and nothing else, so tests and benchmarks compare against it. One thread, no
// executor; owned and called by whoever runs it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sluice/kernels/loss.hpp>
#include <sluice/kernels/model.hpp>
#include <sluice/kernels/perceptron_part.hpp>
#include <sluice/kernels/sgd.hpp>

namespace sluice::kernels {

class PlainLoop {
 public:
  /// `input` (samples, features), `labels` s32 (samples).
  struct Microbatch {
    Tensor input;
    Tensor labels;
  };

  PlainLoop(const Perceptron& model, const PartOptions& options);

  /// One step on a global batch. Returns the sums over it, scored before the update.
  Score step(std::span<const Microbatch> batch);
  /// Scores without training.
  Score evaluate(const Microbatch& microbatch);

  /// In model order: equal to those of a pipeline that did the same steps, whatever its cut.
  std::vector<ParameterHash> hashes();

 private:
  Tensor& buffer(std::vector<Tensor>& buffers, std::size_t index, std::int64_t samples,
                 std::int64_t width);
  std::span<float> block(Tensor& flat, std::size_t layer) const;
  const Tensor& forward(const Tensor& input);

  Workspace workspace_;
  std::vector<Linear> layers_;
  std::vector<std::size_t> starts_;
  Tensor weights_, gradient_, contribution_;  ///< flat, layer after layer
  std::unique_ptr<Sgd> sgd_;
  std::int64_t steps_ = 0;
  std::vector<Tensor> outputs_, gradients_;  ///< of each layer, reused
};

}  // namespace sluice::kernels
