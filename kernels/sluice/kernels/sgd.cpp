#include <sluice/kernels/sgd.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include <sluice/kernels/elementwise.hpp>

namespace sluice::kernels {
namespace {

SgdOptions checked(const SgdOptions& options) {
  const auto require = [](bool right, std::string_view what, std::string_view expected,
                          float found) {
    if (right) return;
    throw std::invalid_argument(
        fmt::format("optimizer: {}: expected {}, found {}", what, expected, found));
  };
  require(std::isfinite(options.learning_rate) && options.learning_rate > 0, "learning rate",
          "a finite number above 0, usually 0.01 to 0.1", options.learning_rate);
  require(options.momentum >= 0 && options.momentum < 1, "momentum",
          "at least 0 and below 1, usually 0.9", options.momentum);
  if (options.decay_steps < 0) {
    throw std::invalid_argument(fmt::format(
        "optimizer: decay steps: expected 0 (no decay) or the number of steps of the whole run, "
        "found {}",
        options.decay_steps));
  }
  require(std::isfinite(options.weight_decay) && options.weight_decay >= 0, "weight decay",
          "a finite number of at least 0, usually 0 to 0.001", options.weight_decay);
  return options;
}

}  // namespace

Sgd::Sgd(const SgdOptions& options, std::size_t floats)
    : options_(checked(options)),
      velocity_(Tensor::zeros(DType::f32, Dims{static_cast<std::int64_t>(floats)})) {}

void Sgd::prepare(std::span<const float> gradient, std::string_view where) const {
  if (options_.check_finite) require_finite(gradient, "gradient", where);
}

float Sgd::learning_rate(std::int64_t step) const {
  if (options_.decay_steps == 0) return options_.learning_rate;
  const double left = 1.0 - static_cast<double>(step) / static_cast<double>(options_.decay_steps);
  return static_cast<float>(options_.learning_rate * std::max(left, 0.0));
}

void Sgd::commit(std::int64_t step, std::span<float> weights,
                 std::span<const float> gradient) noexcept {
  momentum_step(weights, velocity_.f32(), gradient, learning_rate(step), options_.momentum,
                options_.weight_decay);
}

}  // namespace sluice::kernels
