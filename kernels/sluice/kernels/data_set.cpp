#include <sluice/kernels/data_set.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <sluice/kernels/hash.hpp>
#include <sluice/kernels/idx.hpp>
#include <sluice/random.hpp>

namespace sluice::kernels {

DataSet::DataSet(std::string name, std::vector<std::uint8_t> features,
                 std::vector<std::uint8_t> labels, int classes, const Normalization& normalization)
    : name_(std::move(name)),
      features_(std::move(features)),
      labels_(std::move(labels)),
      classes_(classes) {
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  if (labels_.empty() || labels_.size() > most || features_.empty() ||
      features_.size() % labels_.size() != 0) {
    throw DataError(
        fmt::format("{}: expected 1 to {} labels and equally many features for each, found {} "
                    "labels and {} features; check that both come from the same data set",
                    name_, most, labels_.size(), features_.size()));
  }
  const auto wrong = std::find_if(labels_.begin(), labels_.end(),
                                  [classes](std::uint8_t label) { return label >= classes; });
  if (wrong != labels_.end()) {
    throw DataError(
        fmt::format("{}: label of sample {}: expected 0..{}, found {}; the file is "
                    "damaged or has other classes",
                    name_, wrong - labels_.begin(), classes - 1, *wrong));
  }
  for (std::size_t byte = 0; byte < value_of_.size(); ++byte) {
    value_of_[byte] =
        (static_cast<float>(byte) / 255.0F - normalization.mean) / normalization.deviation;
  }
}

std::uint64_t DataSet::hash() const {
  std::uint64_t hash = hash_bytes(value_of_.data(), sizeof value_of_);
  hash = hash_bytes(labels_.data(), labels_.size(), hash);
  return hash_bytes(features_.data(), features_.size(), hash);
}

void DataSet::require(std::span<const std::uint32_t> positions) const {
  for (const std::uint32_t position : positions) {
    if (position < labels_.size()) continue;
    throw std::out_of_range(
        fmt::format("{}: sample: expected 0..{}, found {}", name_, labels_.size() - 1, position));
  }
}

Tensor DataSet::inputs(std::span<const std::uint32_t> positions) const {
  require(positions);
  const auto width = static_cast<std::size_t>(features());
  Tensor tensor = Tensor::uninitialized(
      DType::f32, Dims{static_cast<std::int64_t>(positions.size()), features()});
  float* out = tensor.f32().data();
  for (const std::uint32_t position : positions) {
    const std::uint8_t* in = features_.data() + position * width;
    out =
        std::transform(in, in + width, out, [this](std::uint8_t byte) { return value_of_[byte]; });
  }
  return tensor;
}

Tensor DataSet::labels(std::span<const std::uint32_t> positions) const {
  require(positions);
  Tensor tensor =
      Tensor::uninitialized(DType::s32, Dims{static_cast<std::int64_t>(positions.size())});
  std::transform(positions.begin(), positions.end(), tensor.s32().begin(),
                 [this](std::uint32_t position) { return labels_[position]; });
  return tensor;
}

std::vector<std::uint32_t> epoch_order(std::int64_t samples, std::uint64_t seed,
                                       std::int64_t epoch) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0U);
  KeyedRandom random(seed, epoch, "data", 0, "shuffle");
  for (auto left = static_cast<std::uint32_t>(samples); left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
  return order;
}

EpochBatches::EpochBatches(std::int64_t samples, std::int64_t batch_samples, std::uint64_t seed)
    : samples_(samples), batch_samples_(batch_samples), seed_(seed) {
  if (batch_samples < 1 || batch_samples > samples) {
    throw DataError(
        fmt::format("batch.global: a data set of {} samples: expected a global batch of 1 to {}, "
                    "found {}; make the batch smaller",
                    samples, samples, batch_samples));
  }
}

std::span<const std::uint32_t> EpochBatches::batch(std::int64_t step) {
  const std::int64_t epoch = step / steps_per_epoch();
  if (epoch != epoch_) {
    order_ = epoch_order(samples_, seed_, epoch);
    epoch_ = epoch;
  }
  const std::int64_t first = step % steps_per_epoch() * batch_samples_;
  return std::span(order_).subspan(static_cast<std::size_t>(first),
                                   static_cast<std::size_t>(batch_samples_));
}

std::array<std::int64_t, 2> even_slice(std::int64_t count, std::int64_t slices,
                                       std::int64_t index) {
  const std::int64_t each = count / slices;
  const std::int64_t longer = count % slices;
  const std::int64_t first = index * each + std::min(index, longer);
  return {first, first + each + (index < longer ? 1 : 0)};
}

}  // namespace sluice::kernels
