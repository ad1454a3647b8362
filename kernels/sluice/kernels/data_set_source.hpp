// DataSetSource: one global batch of a data set, as the batch source of one pipeline step.
//
// Made anew for each step by whoever drives the pipeline; called on the executor of the rank that
// owns stage 0. Shares the data set, owns its list of positions.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sluice/kernels/data_set.hpp>
#include <sluice/kernels/wire_traits.hpp>
#include <sluice/stage.hpp>

namespace sluice::kernels {

class DataSetSource final : public BatchSource<Tensor> {
 public:
  /// `positions` in the data set, cut into `microbatches` as evenly as can be, longer ones first.
  /// Throws DataError when there are fewer positions than microbatches.
  DataSetSource(std::shared_ptr<const DataSet> data, std::span<const std::uint32_t> positions,
                int microbatches);

  /// Throws EndOfBatch behind the last one.
  asio::awaitable<MicrobatchData<Tensor>> next(MicrobatchId mb) override;

 private:
  MicrobatchData<Tensor> slice(MicrobatchId mb) const;

  std::shared_ptr<const DataSet> data_;
  std::vector<std::uint32_t> positions_;
  int microbatches_;
};

/// A step's batch from such a source.
Batch<Tensor> make_batch(std::shared_ptr<const DataSet> data,
                         std::span<const std::uint32_t> positions, int microbatches);

}  // namespace sluice::kernels
