#include <sluice/kernels/data_set_source.hpp>

#include <utility>

#include <fmt/format.h>

#include <sluice/kernels/idx.hpp>

namespace sluice::kernels {

DataSetSource::DataSetSource(std::shared_ptr<const DataSet> data,
                             std::span<const std::uint32_t> positions, int microbatches)
    : data_(std::move(data)),
      positions_(positions.begin(), positions.end()),
      microbatches_(microbatches) {
  if (microbatches < 1 || positions_.size() < static_cast<std::size_t>(microbatches)) {
    throw DataError(
        fmt::format("batch: expected at least one sample in each of {} microbatches, found {} "
                    "samples; use fewer microbatches or a larger batch",
                    microbatches, positions_.size()));
  }
}

MicrobatchData<Tensor> DataSetSource::slice(MicrobatchId mb) const {
  if (mb.value < 0 || mb.value >= microbatches_) throw EndOfBatch();
  const auto [first, last] =
      even_slice(static_cast<std::int64_t>(positions_.size()), microbatches_, mb.value);
  const auto of_slice =
      std::span(positions_)
          .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
  return {data_->inputs(of_slice), data_->labels(of_slice), last - first};
}

asio::awaitable<MicrobatchData<Tensor>> DataSetSource::next(MicrobatchId mb) {
  co_return slice(mb);
}

Batch<Tensor> make_batch(std::shared_ptr<const DataSet> data,
                         std::span<const std::uint32_t> positions, int microbatches) {
  auto source = std::make_shared<DataSetSource>(std::move(data), positions, microbatches);
  return {std::move(source), static_cast<std::int64_t>(positions.size())};
}

}  // namespace sluice::kernels
