// DataSet: labelled samples in memory, and slices of them as tensors.
//
// Made by a loader, then read by batch sources; immutable, so any number of threads may read one.
// Features are kept as the bytes they came as, and become normalised f32 when a slice is made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sluice/kernels/tensor.hpp>

namespace sluice::kernels {

/// (byte / 255 - mean) / deviation.
struct Normalization {
  float mean = 0;
  float deviation = 1;
};

class DataSet {
 public:
  /// `features`: row-major, a multiple of the number of labels; `labels`: one a sample, below
  /// `classes`. `name` stands for it in messages. Throws DataError when they do not agree.
  DataSet(std::string name, std::vector<std::uint8_t> features, std::vector<std::uint8_t> labels,
          int classes, const Normalization& normalization);

  std::int64_t samples() const { return static_cast<std::int64_t>(labels_.size()); }
  std::int64_t features() const { return static_cast<std::int64_t>(features_.size()) / samples(); }
  int classes() const { return classes_; }
  /// XXH3 (64 bits) over everything that training sees of it.
  std::uint64_t hash() const;

  /// The samples at these positions: f32 (n, features), s32 (n). Throws std::out_of_range.
  Tensor inputs(std::span<const std::uint32_t> positions) const;
  Tensor labels(std::span<const std::uint32_t> positions) const;

 private:
  void require(std::span<const std::uint32_t> positions) const;

  std::string name_;
  std::vector<std::uint8_t> features_;
  std::vector<std::uint8_t> labels_;
  int classes_;
  std::array<float, 256> value_of_{};  ///< normalised, by byte
};

/// The order in which an epoch visits a data set: a permutation that depends on seed and epoch
/// alone, never on microbatches, stages or schedules.
std::vector<std::uint32_t> epoch_order(std::int64_t samples, std::uint64_t seed,
                                       std::int64_t epoch);

/// The global batches of endless epochs over one data set. Each step takes the next `batch_samples`
/// of its epoch; what is left of an epoch when no whole batch fits is dropped, and differs from
/// epoch to epoch. Any step can be asked for, so a resumed run sees what it would have seen.
class EpochBatches {
 public:
  /// Throws DataError unless 1 <= batch_samples <= samples.
  EpochBatches(std::int64_t samples, std::int64_t batch_samples, std::uint64_t seed);

  std::int64_t steps_per_epoch() const { return samples_ / batch_samples_; }
  /// Positions in the data set. Valid until the next call.
  std::span<const std::uint32_t> batch(std::int64_t step);

 private:
  std::int64_t samples_;
  std::int64_t batch_samples_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;
  std::vector<std::uint32_t> order_;
};

/// Slice `index` of `count` samples cut into `slices`: as even as can be, longer ones first.
/// Returns first and one past the last.
std::array<std::int64_t, 2> even_slice(std::int64_t count, std::int64_t slices, std::int64_t index);

}  // namespace sluice::kernels
