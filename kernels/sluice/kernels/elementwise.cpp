#include <sluice/kernels/elementwise.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

// One body, compiled for each instruction set and chosen when the program is loaded. This file is
// built with vectorisation on and contraction to fused multiply-adds off.
#define SLUICE_EVERY_ISA __attribute__((target_clones("avx512f", "avx2", "default")))

namespace sluice::kernels {
namespace {

SLUICE_EVERY_ISA
void add_loop(float* __restrict into, const float* __restrict from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) into[i] += from[i];
}

SLUICE_EVERY_ISA
void relu_loop(float* __restrict gradient, const float* __restrict output, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) gradient[i] = output[i] > 0 ? gradient[i] : 0.0F;
}

SLUICE_EVERY_ISA
void relu_into_loop(float* __restrict output, const float* __restrict gradient, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) output[i] = output[i] > 0 ? gradient[i] : 0.0F;
}

SLUICE_EVERY_ISA
std::uint32_t extreme_exponents(const float* values, std::size_t count) {
  constexpr std::uint32_t exponent = 0x7f800000;
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    found |= (std::bit_cast<std::uint32_t>(values[i]) & exponent) == exponent ? 1U : 0U;
  }
  return found;
}

SLUICE_EVERY_ISA
void momentum_loop(float* __restrict weights, float* __restrict velocity,
                   const float* __restrict gradient, std::size_t count, float learning_rate,
                   float momentum, float weight_decay) {
  for (std::size_t i = 0; i < count; ++i) {
    velocity[i] = momentum * velocity[i] + (gradient[i] + weight_decay * weights[i]);
    weights[i] -= learning_rate * velocity[i];
  }
}

}  // namespace

void add(std::span<float> into, std::span<const float> from) noexcept {
  add_loop(into.data(), from.data(), into.size());
}

void relu_backward(std::span<float> gradient, std::span<const float> output) noexcept {
  relu_loop(gradient.data(), output.data(), gradient.size());
}

void relu_backward_into(std::span<float> output, std::span<const float> gradient) noexcept {
  relu_into_loop(output.data(), gradient.data(), output.size());
}

bool all_finite(std::span<const float> values) noexcept {
  return extreme_exponents(values.data(), values.size()) == 0;
}

void require_finite(std::span<const float> values, std::string_view what, std::string_view where) {
  if (all_finite(values)) return;
  std::size_t at = 0;
  while (all_finite(values.subspan(at, 1))) ++at;
  throw NonFiniteError(
      fmt::format("{} of {}: expected finite numbers, found {} at element {}; lower the learning "
                  "rate, or check the inputs",
                  what, where, values[at], at));
}

void momentum_step(std::span<float> weights, std::span<float> velocity,
                   std::span<const float> gradient, float learning_rate, float momentum,
                   float weight_decay) noexcept {
  momentum_loop(weights.data(), velocity.data(), gradient.data(), weights.size(), learning_rate,
                momentum, weight_decay);
}

}  // namespace sluice::kernels
