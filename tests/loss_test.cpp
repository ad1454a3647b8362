#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/kernels/loss.hpp>

namespace sluice::kernels {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor rows(std::int64_t samples, const std::vector<float>& values) {
  Tensor tensor = Tensor::uninitialized(
      DType::f32, Dims{samples, static_cast<std::int64_t>(values.size()) / samples});
  std::copy(values.begin(), values.end(), tensor.f32().begin());
  return tensor;
}

Tensor labels_of(const std::vector<std::int32_t>& values) {
  Tensor tensor = Tensor::uninitialized(DType::s32, Dims{static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.s32().begin());
  return tensor;
}

TEST(Loss, LogSoftmaxMatchesDoublesAlsoForLargeLogits) {
  Tensor values = rows(2, {1, 2, 3, 1000, 1001, 999});
  log_softmax(values);
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_NEAR(values.f32()[0], 1 - std::log(sum), 1e-6);
  EXPECT_NEAR(values.f32()[2], 3 - std::log(sum), 1e-6);
  const double high = std::exp(0.0) + std::exp(1.0) + std::exp(-1.0);
  EXPECT_NEAR(values.f32()[4], 1 - std::log(high), 1e-4);
}

TEST(Loss, ScoreSumsLossAndCountsTheMostProbable) {
  Tensor values = rows(4, {0, 0, 5, 0, 0, 5, 1, 1, 0, 0, 0, 0});
  log_softmax(values);
  const Score result = score(values, labels_of({2, 0, 0, 2}));
  EXPECT_EQ(result.samples, 4);
  EXPECT_EQ(result.correct, 2);  // sample 0, and sample 2 where classes 0 and 1 tie
  const double expected =
      2 * std::log(2 + std::exp(5.0)) - 5 + std::log(2 * std::exp(1.0) + 1) - 1 + std::log(3.0);
  EXPECT_NEAR(result.loss, expected, 1e-5);
}

TEST(Loss, GradientMatchesFiniteDifferences) {
  const std::vector<float> logits{0.3F, -1.2F, 0.8F, 2.0F, 0.1F, -0.4F};
  const Tensor labels = labels_of({1, 0});
  constexpr std::int64_t batch_samples = 10;
  const auto loss_at = [&](std::size_t at, double shift) {
    double loss = 0;
    for (std::size_t n = 0; n < 2; ++n) {
      double sum = 0;
      double right = 0;
      for (std::size_t c = 0; c < 3; ++c) {
        const double value = logits[3 * n + c] + (3 * n + c == at ? shift : 0.0);
        sum += std::exp(value);
        if (static_cast<std::int32_t>(c) == labels.s32()[n]) right = value;
      }
      loss += std::log(sum) - right;
    }
    return loss / batch_samples;
  };
  Tensor gradient = rows(2, logits);
  log_softmax(gradient);
  cross_entropy_backward(gradient, labels, batch_samples);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_NEAR(gradient.f32()[i], (loss_at(i, 1e-5) - loss_at(i, -1e-5)) / 2e-5, 1e-6);
  }
}

TEST(Loss, NaNIsNeverCorrect) {
  Tensor values = rows(1, {std::numeric_limits<float>::quiet_NaN(), 0, 0});
  log_softmax(values);
  const Score result = score(values, labels_of({0}));
  EXPECT_EQ(result.correct, 0);
  EXPECT_TRUE(std::isnan(result.loss));
}

TEST(Loss, WrongLabelsAndShapesAreRefused) {
  Tensor values = rows(2, {0, 0, 0, 0, 0, 0});
  EXPECT_THAT([&] { score(values, labels_of({0, 3})); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("label of sample 1 of the microbatch: expected 0..2, found 3")));
  EXPECT_THAT([&] { score(values, labels_of({-1, 0})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("found -1")));
  EXPECT_THAT(
      [&] { score(values, labels_of({0})); },
      ThrowsMessage<std::invalid_argument>(HasSubstr("labels (2), one a sample, found s32 (1)")));
  EXPECT_THROW(score(values, Tensor::zeros(DType::f32, Dims{2})), std::invalid_argument);
  EXPECT_THROW(cross_entropy_backward(values, labels_of({0, 1}), 0), std::invalid_argument);
  Tensor empty;
  EXPECT_THROW(log_softmax(empty), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::kernels
