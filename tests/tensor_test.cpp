#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/kernels/tensor.hpp>
#include <sluice/kernels/tensor_pool.hpp>
#include <sluice/kernels/wire_traits.hpp>

namespace sluice::kernels {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Tensor, IsEmptyByDefaultAndAfterAMove) {
  Tensor empty;
  EXPECT_TRUE(empty.empty());
  EXPECT_TRUE(empty.f32().empty());
  EXPECT_TRUE(empty.s32().empty());

  Tensor full = Tensor::zeros(DType::f32, Dims{2, 3});
  Tensor taken = std::move(full);
  EXPECT_TRUE(full.empty());  // NOLINT(bugprone-use-after-move): the promise under test
  EXPECT_EQ(taken.dims(), (Dims{2, 3}));
  empty = std::move(taken);
  EXPECT_TRUE(taken.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(empty.f32().size(), 6U);
}

TEST(Tensor, StorageIsAligned) {
  for (const std::int64_t size : {1, 3, 17, 1000}) {
    const Tensor tensor = Tensor::uninitialized(DType::f32, Dims{size});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.f32().data()) % alignment, 0U);
  }
}

TEST(Tensor, CloneSharesNothing) {
  Tensor original = Tensor::zeros(DType::s32, Dims{3});
  original.s32()[1] = 5;
  const Tensor copy = original.clone();
  original.s32()[1] = 6;
  EXPECT_EQ(copy.s32()[1], 5);
}

TEST(Tensor, ASharedOneIsCopiedByWhoeverWritesToIt) {
  Tensor original = Tensor::zeros(DType::f32, Dims{3});
  const Tensor second = original.share();
  EXPECT_EQ(std::as_const(original).f32().data(), second.f32().data());
  original.f32()[1] = 5;
  EXPECT_EQ(second.f32()[1], 0);
  EXPECT_EQ(original.f32()[1], 5);
  const float* storage = original.f32().data();
  {
    const Tensor third = original.share();
  }
  EXPECT_EQ(original.f32().data(), storage);  // alone again, it is written to in place
}

TEST(Tensor, WrongTypeIsRefused) {
  Tensor labels = Tensor::zeros(DType::s32, Dims{3});
  EXPECT_THAT([&] { labels.f32(); }, ThrowsMessage<std::invalid_argument>(
                                         HasSubstr("expected elements of type f32, found s32")));
}

TEST(Tensor, ImpossibleSizesAreRefused) {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max() / 4;
  EXPECT_NO_THROW(Dims({huge, 1}));
  EXPECT_THROW(Dims({huge, 2}), std::invalid_argument);
  EXPECT_THROW(Dims({huge + 1}), std::invalid_argument);
  EXPECT_THROW(Dims({-1}), std::invalid_argument);
  EXPECT_THROW(Dims({1, 1, 1, 1, 1}), std::invalid_argument);
  EXPECT_EQ(Dims({5, 0}).elements(), 0);
}

TEST(Tensor, HashSeesTypeSizesAndEveryBit) {
  const auto hash = [](DType type, const Dims& dims) { return Tensor::zeros(type, dims).hash(); };
  EXPECT_EQ(hash(DType::f32, Dims{2, 3}), hash(DType::f32, Dims{2, 3}));
  EXPECT_NE(hash(DType::f32, Dims{2, 3}), hash(DType::f32, Dims{3, 2}));
  EXPECT_NE(hash(DType::f32, Dims{2, 3}), hash(DType::f32, Dims{2, 3, 1}));
  EXPECT_NE(hash(DType::f32, Dims{6}), hash(DType::s32, Dims{6}));
  EXPECT_NE(hash(DType::f32, Dims{}), hash(DType::f32, Dims{0}));

  Tensor negative_zero = Tensor::zeros(DType::f32, Dims{2, 3});
  negative_zero.f32()[5] = -0.0F;
  EXPECT_NE(negative_zero.hash(), hash(DType::f32, Dims{2, 3}));
}

TEST(Tensor, ReshapeKeepsTheNumberOfElements) {
  Tensor tensor = Tensor::zeros(DType::f32, Dims{2, 6});
  tensor.reshape(DType::s32, Dims{12});
  EXPECT_EQ(tensor.s32().size(), 12U);
  EXPECT_THAT([&] { tensor.reshape(DType::f32, Dims{13}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("(12) has, found (13)")));
}

TEST(TensorPool, GivesBackWhatFitsAndForgetsTheOldest) {
  TensorPool pool(2);
  Tensor first = Tensor::zeros(DType::f32, Dims{4});
  const float* storage = first.f32().data();
  pool.give(std::move(first));
  const Tensor other = pool.take(DType::f32, Dims{5});
  EXPECT_EQ(pool.size(), 1U);
  Tensor again = pool.take(DType::f32, Dims{2, 2});
  EXPECT_EQ(again.f32().data(), storage);
  EXPECT_EQ(again.dims(), (Dims{2, 2}));

  pool.give(std::move(again));
  pool.give(Tensor::zeros(DType::f32, Dims{7}));
  pool.give(Tensor::zeros(DType::f32, Dims{7}));
  pool.give(Tensor());
  EXPECT_EQ(pool.size(), 2U);
  EXPECT_NE(pool.take(DType::f32, Dims{4}).f32().data(), nullptr);
  EXPECT_EQ(pool.size(), 2U);
}

TEST(Tensor, TheCoreMayAskWhetherItIsFiniteAndForAnother) {
  Tensor tensor = Tensor::zeros(DType::f32, Dims{3, 2});
  tensor.f32()[4] = 1.5F;
  EXPECT_TRUE(WireTraits<Tensor>::finite(tensor));
  const Tensor second = WireTraits<Tensor>::clone(tensor);
  EXPECT_EQ(WireTraits<Tensor>::hash(second), WireTraits<Tensor>::hash(tensor));
  tensor.f32()[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(WireTraits<Tensor>::finite(tensor));
  EXPECT_TRUE(WireTraits<Tensor>::finite(second));
  EXPECT_TRUE(WireTraits<Tensor>::finite(Tensor::zeros(DType::s32, Dims{2})));
}

}  // namespace
}  // namespace sluice::kernels
