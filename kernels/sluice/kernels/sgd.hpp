// Sgd: stochastic gradient descent with momentum, in two phases.
//
// A step is all or nothing across stages: every stage prepares (which may fail) before any commits
// (which may not). Owned by a part of a model; works on flat blocks of floats whatever their layout,
// since every element is updated by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <sluice/kernels/tensor.hpp>

namespace sluice::kernels {

struct SgdOptions {
  float learning_rate = 0.05F;
  float momentum = 0.9F;         ///< 0 is plain SGD
  float weight_decay = 0.0F;     ///< times the weight, added to its gradient
  std::int64_t decay_steps = 0;  ///< the learning rate falls linearly to 0 over these; 0: it stays
  bool check_finite = false;     ///< refuse an update whose gradient holds an infinity or a NaN
};

class Sgd {
 public:
  /// For `floats` parameters; velocity starts at 0. Throws std::invalid_argument on options that
  /// cannot train: a learning rate that is not finite and positive, a momentum outside [0, 1), a
  /// weight decay that is not finite and >= 0.
  Sgd(const SgdOptions& options, std::size_t floats);

  /// First phase, for one parameter's gradient or more; `where` names it. Changes nothing. Throws
  /// NonFiniteError when that is checked.
  void prepare(std::span<const float> gradient, std::string_view where) const;

  /// Second phase: velocity = momentum * velocity + (gradient + weight_decay * weight);
  /// weight -= learning_rate(step) * velocity. Both spans hold as many floats as the constructor was told.
  void commit(std::int64_t step, std::span<float> weights,
              std::span<const float> gradient) noexcept;

  /// Depends on the step alone, so a resumed run continues where it was.
  float learning_rate(std::int64_t step) const;

  std::span<float> velocity() { return velocity_.f32(); }
  std::span<const float> velocity() const { return velocity_.f32(); }

 private:
  SgdOptions options_;
  Tensor velocity_;
};

}  // namespace sluice::kernels
