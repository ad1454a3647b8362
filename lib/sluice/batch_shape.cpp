#include <sluice/batch_shape.hpp>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sluice/config_finding.hpp>

namespace sluice {
namespace {

/// A product of numbers >= 1, or the largest number where it is larger still: then nothing fits.
std::int64_t product(std::initializer_list<std::int64_t> factors) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) {
    if (result > most / factor) return most;
    result *= factor;
  }
  return result;
}

/// What one microbatch takes of the global batch.
std::int64_t portion(const BatchShape& batch) {
  return product({batch.micro, batch.accumulation, batch.replicas});
}

/// `micro = 4 times replicas = 2`: every factor by its key; those that are 1 by nature only where
/// they are not.
std::string factors_of(const BatchShape& batch, std::optional<std::int64_t> microbatches) {
  std::string text = fmt::format("micro = {}", batch.micro);
  if (microbatches) text += fmt::format(" times microbatches = {}", *microbatches);
  if (batch.accumulation != 1) text += fmt::format(" times accumulation = {}", batch.accumulation);
  if (batch.replicas != 1) text += fmt::format(" times replicas = {}", batch.replicas);
  return text;
}

/// `key = 96 or key = 104`: the multiples of `step` round `value`.
std::string nearest_multiples(std::string_view key, std::int64_t value, std::int64_t step) {
  const std::int64_t below = value / step * step;
  std::string text = below > 0 ? fmt::format("{} = {}", key, below) : std::string();
  if (below > std::numeric_limits<std::int64_t>::max() - step) return text;
  if (!text.empty()) text += " or ";
  return text + fmt::format("{} = {}", key, below + step);
}

Finding not_a_multiple(std::string_view key, const BatchShape& batch) {
  const std::int64_t step =
      batch.ragged ? product({batch.accumulation, batch.replicas}) : portion(batch);
  const std::string larger = batch.global < step ? ", which is more than there is" : std::string();
  return config_error(
      "batch", key, fmt::format("a multiple of {}", step), std::to_string(batch.global),
      fmt::format("{} = {}: expected a multiple of {}, which makes {}{}; nearest that fit: {}{}",
                  key, batch.global, factors_of(batch, {}), step, larger,
                  nearest_multiples(key, batch.global, step),
                  batch.ragged || batch.replicas * batch.accumulation != 1
                      ? ""
                      : ", or ragged = true for a short last microbatch"));
}

}  // namespace

std::int64_t whole_batch(const BatchShape& batch, std::int64_t microbatches) {
  return product({portion(batch), microbatches});
}

std::optional<std::int64_t> microbatches_of(const BatchShape& batch) {
  const std::int64_t share = product({batch.accumulation, batch.replicas});
  if (batch.global % share != 0) return std::nullopt;
  const std::int64_t samples = batch.global / share;
  if (!batch.ragged && samples % batch.micro != 0) return std::nullopt;
  return samples / batch.micro + (samples % batch.micro == 0 ? 0 : 1);
}

std::optional<Finding> check_batch(const BatchShape& batch, std::int64_t microbatches) {
  if (microbatches_of(batch) == microbatches) return std::nullopt;
  const std::int64_t whole = whole_batch(batch, microbatches);
  std::string fits = fmt::format("global = {}", whole);
  const std::int64_t rest = product({batch.accumulation, batch.replicas});
  if (const auto other = microbatches_of(batch))
    fits += fmt::format(", or microbatches = {}", *other);
  const std::int64_t without_micro = product({rest, microbatches});
  if (batch.global % without_micro == 0) {
    fits += fmt::format(", or micro = {}", batch.global / without_micro);
  }
  const std::int64_t without_replicas = product({batch.micro, batch.accumulation, microbatches});
  if (batch.global % without_replicas == 0 && batch.global != without_replicas * batch.replicas) {
    fits += fmt::format(", or replicas = {}", batch.global / without_replicas);
  }
  return config_error("batch", "global", std::to_string(whole), std::to_string(batch.global),
                      fmt::format("global = {}: expected {}, which makes {}; nearest that fit: {}",
                                  batch.global, factors_of(batch, microbatches), whole, fits));
}

std::optional<Finding> check_batch(const BatchShape& batch) {
  if (microbatches_of(batch)) return std::nullopt;
  return not_a_multiple("global", batch);
}

std::vector<std::int64_t> samples_of(const BatchShape& batch, std::int64_t microbatches) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(microbatches), batch.micro);
  const std::int64_t all = batch.global / product({batch.accumulation, batch.replicas});
  samples.back() = all - (microbatches - 1) * batch.micro;
  return samples;
}

std::optional<Finding> check_ramp(const BatchShape& batch, const std::vector<std::int64_t>& ramp) {
  for (const std::int64_t global : ramp) {
    BatchShape step = batch;
    step.global = global;
    if (!microbatches_of(step)) return not_a_multiple("ramp", step);
  }
  return std::nullopt;
}

}  // namespace sluice
