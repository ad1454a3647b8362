// The few loops over plain floats that are not worth a library primitive.
//
// Called by layers, optimizers and stages. Element by element with no reassociation and no fused
// multiply-add: the bits are the same for every instruction set the loops are compiled for.
// Stateless; any thread.
#pragma once

#include <span>
#include <stdexcept>
#include <string_view>

namespace sluice::kernels {

/// into[i] += from[i]. Requires equal sizes.
void add(std::span<float> into, std::span<const float> from) noexcept;

/// gradient[i] = 0 where output[i] <= 0: the backward of a ReLU, from what it returned.
/// Requires equal sizes.
void relu_backward(std::span<float> gradient, std::span<const float> output) noexcept;

/// The same, into `output`: output[i] = output[i] > 0 ? gradient[i] : 0.
void relu_backward_into(std::span<float> output, std::span<const float> gradient) noexcept;

/// Whether no element is infinite or NaN.
bool all_finite(std::span<const float> values) noexcept;

/// A number that no training survives.
class NonFiniteError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws NonFiniteError when an element is infinite or NaN. `what` and `where` open the message:
/// what the values are, and in which action or parameter they were found.
void require_finite(std::span<const float> values, std::string_view what, std::string_view where);

/// velocity = momentum * velocity + (gradient + weight_decay * weight);
/// weight -= learning_rate * velocity. Requires equal sizes.
void momentum_step(std::span<float> weights, std::span<float> velocity,
                   std::span<const float> gradient, float learning_rate, float momentum,
                   float weight_decay) noexcept;

}  // namespace sluice::kernels
