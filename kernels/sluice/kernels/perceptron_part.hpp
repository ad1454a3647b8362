// PerceptronPart: the mathematics of one stage, consecutive layers of a Perceptron and their optimizer.
//
// Knows nothing of microbatches, schedules or coroutines: what a backward needs of its forward is
// handed out and handed back by the caller. Owned by a stage and called one call at a time, from any
// thread. All parameters of the part lie in one flat block, layer after layer, in the layout the
// processor likes; gradients and the optimizer's velocity lie the same way, so that adding and
// updating are one loop each. Row-major copies go in and out by parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sluice/kernels/linear.hpp>
#include <sluice/kernels/model.hpp>
#include <sluice/kernels/sgd.hpp>
#include <sluice/kernels/tensor.hpp>
#include <sluice/kernels/tensor_pool.hpp>

namespace sluice::kernels {

struct PartOptions {
  std::uint64_t seed = 0;
  std::int64_t micro_samples =
      32;  ///< the usual microbatch; others work, and cost kernels of their own
  SgdOptions sgd;
  int kernel_threads = 1;        ///< as `effective_kernel_threads` says
  std::size_t cached_sizes = 8;  ///< microbatch sizes to keep kernels for
};

/// One parameter by its name in the model, row-major: the weights, and the optimizer's velocity.
struct Parameter {
  std::string path;  ///< "layers.3.weight"
  Tensor value;
  Tensor velocity;
};

/// The hashes of a Parameter's two tensors.
struct ParameterHash {
  std::string path;
  std::uint64_t value = 0;
  std::uint64_t velocity = 0;
};

/// One hash of all weights. Given the parameters of a whole model in model order (part after part)
/// it does not depend on the cut.
std::uint64_t weights_hash(std::span<const ParameterHash> parameters);
/// The same over weights and velocity: everything that later steps depend on.
std::uint64_t state_hash(std::span<const ParameterHash> parameters);

class PerceptronPart {
 public:
  /// What a backward needs of its forward.
  struct Kept {
    std::vector<Tensor> inputs;            ///< of each layer
    Tensor output;                         ///< a copy, where the last layer ends in a ReLU
    std::vector<Tensor> output_gradients;  ///< of each layer; between the two halves of a backward
  };

  /// Throws like `Linear` and `Sgd`, and std::invalid_argument when `layers` is not a non-empty range
  /// of the model's.
  PerceptronPart(const Perceptron& model, LayerRange layers, const PartOptions& options);

  /// `input` (n, first width), any n >= 1; returns (n, last width). `keep`: filled for the backward;
  /// null when none will follow.
  Tensor forward(Tensor input, Kept* keep);

  /// The half of a backward that the previous stage waits for. Takes the gradient of what `forward`
  /// returned; returns that of its input, or nothing when the part holds the model's first layer.
  Tensor input_gradient(Kept& kept, Tensor output_gradient);
  /// The other half, after it: this microbatch's gradient of all parameters, flat. Only this part
  /// (or one of the same layers on the same kind of processor) knows what lies where.
  Tensor weight_gradient(Kept kept);

  /// Adds a contribution to the step's gradient, in the order of the calls.
  void accumulate(Tensor contribution);
  /// Throws std::logic_error when nothing was accumulated, NonFiniteError when the optimizer checks
  /// for that, naming the parameter. Changes nothing that counts.
  void prepare_update(std::int64_t step);
  void commit() noexcept;
  void abort() noexcept;

  StageShape shape(std::int64_t samples) const;
  std::vector<ParameterHash> hashes();
  /// Of weights and velocity as they lie in memory: once a step, so nothing is copied for it. The same
  /// on the same kind of processor for the same layers and microbatch size.
  std::uint64_t state_hash() const;
  std::vector<Parameter> snapshot();
  /// Takes what `snapshot` gave, of these layers under the same paths, in the same order. Throws
  /// std::invalid_argument otherwise, before anything has changed.
  void restore(std::span<const Parameter> parameters);

  std::vector<std::string> implementations() const;
  /// Summed over the layers.
  CacheCounts cache() const;

 private:
  std::span<float> block(Tensor& flat, std::size_t layer) const;
  std::span<const float> block(const Tensor& flat, std::size_t layer) const;
  std::size_t floats() const { return starts_.back(); }

  std::unique_ptr<Workspace> workspace_;  ///< its address is known to the layers
  std::vector<Linear> layers_;
  std::vector<std::size_t> starts_;  ///< of each layer's parameters in a flat block; last: the end
  Tensor weights_;
  Sgd sgd_;
  std::int64_t prepared_step_ = 0;
  Tensor gradient_;  ///< sum of what was accumulated in this step; empty before the first
  TensorPool pool_;
};

}  // namespace sluice::kernels
