#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/use_future.hpp>

#include <sluice/kernels/data_set.hpp>
#include <sluice/kernels/data_set_source.hpp>
#include <sluice/kernels/idx.hpp>

namespace sluice::kernels {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Sample n has label n % 10 and the features 3n, 3n+1, 3n+2.
std::shared_ptr<const DataSet> small_set(std::size_t samples) {
  std::vector<std::uint8_t> features(3 * samples);
  std::iota(features.begin(), features.end(), std::uint8_t{0});
  std::vector<std::uint8_t> labels(samples);
  for (std::size_t n = 0; n < samples; ++n) labels[n] = static_cast<std::uint8_t>(n % 10);
  return std::make_shared<const DataSet>("small", features, labels, 10, Normalization{0.5F, 0.25F});
}

MicrobatchData<Tensor> get(BatchSource<Tensor>& source, int mb) {
  asio::io_context context;
  auto result = asio::co_spawn(context, source.next(MicrobatchId(mb)), asio::use_future);
  context.run();
  return result.get();
}

TEST(DataSet, SlicesAreNormalised) {
  const auto data = small_set(20);
  EXPECT_EQ(data->samples(), 20);
  EXPECT_EQ(data->features(), 3);
  const std::vector<std::uint32_t> positions{17, 0};
  const Tensor inputs = data->inputs(positions);
  EXPECT_EQ(inputs.dims(), (Dims{2, 3}));
  EXPECT_FLOAT_EQ(inputs.f32()[0], (51.0F / 255.0F - 0.5F) / 0.25F);
  EXPECT_FLOAT_EQ(inputs.f32()[3], -2.0F);
  const Tensor labels = data->labels(positions);
  EXPECT_EQ(labels.dims(), (Dims{2}));
  EXPECT_EQ(labels.s32()[0], 7);
  EXPECT_EQ(labels.s32()[1], 0);
  EXPECT_THAT([&] { data->inputs(std::vector<std::uint32_t>{20}); },
              ThrowsMessage<std::out_of_range>(HasSubstr("expected 0..19, found 20")));
}

TEST(DataSet, DisagreeingPartsAreRefused) {
  const auto make = [](std::size_t features, std::vector<std::uint8_t> labels) {
    return DataSet("bad", std::vector<std::uint8_t>(features), std::move(labels), 10, {});
  };
  EXPECT_NO_THROW(make(4, {0, 9}));
  EXPECT_THAT([&] { make(5, {0, 9}); },
              ThrowsMessage<DataError>(HasSubstr("found 2 labels and 5 features")));
  EXPECT_THROW(make(0, {0}), DataError);
  EXPECT_THROW(make(0, {}), DataError);
  EXPECT_THAT([&] { make(4, {0, 10}); },
              ThrowsMessage<DataError>(
                  AllOf(HasSubstr("label of sample 1"), HasSubstr("expected 0..9, found 10"))));
}

TEST(DataSet, HashSeesFeaturesLabelsAndNormalisation) {
  const std::vector<std::uint8_t> features{1, 2};
  const std::vector<std::uint8_t> labels{3, 4};
  const auto hash = DataSet("a", features, labels, 10, {0, 1}).hash();
  EXPECT_EQ(DataSet("b", features, labels, 10, {0, 1}).hash(), hash);
  EXPECT_NE(DataSet("a", {1, 3}, labels, 10, {0, 1}).hash(), hash);
  EXPECT_NE(DataSet("a", features, {3, 5}, 10, {0, 1}).hash(), hash);
  EXPECT_NE(DataSet("a", features, labels, 10, {0, 2}).hash(), hash);
}

TEST(EpochOrder, IsAPermutationBySeedAndEpoch) {
  const auto order = epoch_order(1000, 1, 0);
  EXPECT_EQ(std::set<std::uint32_t>(order.begin(), order.end()).size(), 1000U);
  EXPECT_EQ(*std::max_element(order.begin(), order.end()), 999U);
  EXPECT_EQ(order, epoch_order(1000, 1, 0));
  EXPECT_NE(order, epoch_order(1000, 1, 1));
  EXPECT_NE(order, epoch_order(1000, 2, 0));
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  EXPECT_THAT(epoch_order(1, 1, 0), ElementsAre(0U));
}

TEST(EpochBatches, WalkTheEpochsAndDropWhatFillsNoBatch) {
  EpochBatches batches(10, 4, 1);
  EXPECT_EQ(batches.steps_per_epoch(), 2);
  for (const std::int64_t epoch : {0, 1, 5}) {
    const auto order = epoch_order(10, 1, epoch);
    for (const std::int64_t in_epoch : {1, 0}) {  // any step, in any order
      const auto batch = batches.batch(2 * epoch + in_epoch);
      EXPECT_TRUE(std::equal(batch.begin(), batch.end(), order.begin() + 4 * in_epoch,
                             order.begin() + 4 * in_epoch + 4));
    }
  }
  EXPECT_EQ(EpochBatches(10, 10, 1).steps_per_epoch(), 1);
  EXPECT_THAT([] { EpochBatches(10, 11, 1); },
              ThrowsMessage<DataError>(HasSubstr("expected a global batch of 1 to 10, found 11")));
  EXPECT_THROW(EpochBatches(10, 0, 1), DataError);
}

// However many microbatches: the same samples in the same order.
TEST(DataSetSource, CutsABatchEvenlyAndKeepsItsOrder) {
  const auto data = small_set(30);
  const std::vector<std::uint32_t> positions{9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 29};
  const Tensor whole = data->inputs(positions);
  for (const int microbatches : {1, 2, 3, 4, 11}) {
    Batch<Tensor> batch = make_batch(data, positions, microbatches);
    EXPECT_EQ(batch.samples, 11);
    std::vector<float> inputs;
    std::vector<std::int64_t> sizes;
    for (int mb = 0; mb < microbatches; ++mb) {
      const MicrobatchData<Tensor> slice = get(*batch.source, mb);
      EXPECT_EQ(slice.target.dims(), (Dims{slice.samples}));
      inputs.insert(inputs.end(), slice.input.f32().begin(), slice.input.f32().end());
      sizes.push_back(slice.samples);
    }
    EXPECT_TRUE(std::equal(inputs.begin(), inputs.end(), whole.f32().begin(), whole.f32().end()));
    EXPECT_LE(sizes.front() - sizes.back(), 1);
    EXPECT_THROW(get(*batch.source, microbatches), EndOfBatch);
  }
  EXPECT_THAT([&] { make_batch(data, positions, 12); },
              ThrowsMessage<DataError>(HasSubstr("each of 12 microbatches, found 11")));
  EXPECT_THROW(make_batch(data, positions, 0), DataError);
}

}  // namespace
}  // namespace sluice::kernels
