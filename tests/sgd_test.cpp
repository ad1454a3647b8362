#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/kernels/elementwise.hpp>
#include <sluice/kernels/sgd.hpp>

namespace sluice::kernels {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Sgd, MatchesTheFormulaBitForBit) {
  SgdOptions options;
  options.learning_rate = 0.1F;
  options.momentum = 0.9F;
  options.weight_decay = 0.01F;
  constexpr std::size_t count = 37;  // no whole number of vector registers
  Sgd sgd(options, count);
  std::vector<float> weights(count);
  std::vector<float> gradient(count);
  for (std::size_t i = 0; i < count; ++i) {
    weights[i] = 0.1F * static_cast<float>(i);
    gradient[i] = std::sin(static_cast<float>(i));
  }
  std::vector<float> expected = weights;
  std::vector<float> velocity(count, 0.0F);
  for (int step = 0; step < 5; ++step) {
    sgd.commit(step, weights, gradient);
    for (std::size_t i = 0; i < count; ++i) {
      // Every product rounds by itself: no fused multiply-add on any processor.
      const volatile float decay = options.weight_decay * expected[i];
      const volatile float kept = options.momentum * velocity[i];
      const volatile float slope = gradient[i] + decay;
      velocity[i] = kept + slope;
      const volatile float change = options.learning_rate * velocity[i];
      expected[i] = expected[i] - change;
    }
  }
  EXPECT_EQ(weights, expected);
  EXPECT_TRUE(std::equal(velocity.begin(), velocity.end(), sgd.velocity().begin()));
}

TEST(Sgd, LearningRateFallsToZeroOrStays) {
  SgdOptions options;
  options.learning_rate = 0.5F;
  EXPECT_EQ(Sgd(options, 1).learning_rate(1'000'000), 0.5F);
  options.decay_steps = 100;
  const Sgd sgd(options, 1);
  EXPECT_EQ(sgd.learning_rate(0), 0.5F);
  EXPECT_EQ(sgd.learning_rate(50), 0.25F);
  EXPECT_EQ(sgd.learning_rate(100), 0.0F);
  EXPECT_EQ(sgd.learning_rate(101), 0.0F);
}

TEST(Sgd, PrepareChecksOnlyWhenAsked) {
  SgdOptions options;
  const std::vector<float> bad{0, std::numeric_limits<float>::quiet_NaN(), 1};
  EXPECT_NO_THROW(Sgd(options, 3).prepare(bad, "layers.0"));
  options.check_finite = true;
  EXPECT_THAT([&] { Sgd(options, 3).prepare(bad, "layers.0"); },
              ThrowsMessage<NonFiniteError>(
                  AllOf(HasSubstr("gradient of layers.0"), HasSubstr("found nan at element 1"))));
  EXPECT_NO_THROW(Sgd(options, 3).prepare(std::vector<float>{0, 1e38F, -1e-45F}, "layers.0"));
}

TEST(Sgd, OptionsThatCannotTrainAreRefused) {
  const auto make = [](float rate, float momentum, float decay, std::int64_t steps) {
    SgdOptions options;
    options.learning_rate = rate;
    options.momentum = momentum;
    options.weight_decay = decay;
    options.decay_steps = steps;
    return Sgd(options, 1);
  };
  EXPECT_NO_THROW(make(0.1F, 0, 0, 0));
  EXPECT_THROW(make(0, 0, 0, 0), std::invalid_argument);
  EXPECT_THROW(make(std::numeric_limits<float>::quiet_NaN(), 0, 0, 0), std::invalid_argument);
  EXPECT_THROW(make(0.1F, 1, 0, 0), std::invalid_argument);
  EXPECT_THROW(make(0.1F, -0.1F, 0, 0), std::invalid_argument);
  EXPECT_THROW(make(0.1F, 0, -1, 0), std::invalid_argument);
  EXPECT_THROW(make(0.1F, 0, 0, -1), std::invalid_argument);
}

TEST(Elementwise, ReluBackwardStopsWhereNothingPassed) {
  std::vector<float> gradient{1, 2, 3, 4};
  relu_backward(gradient, std::vector<float>{0, 1, -0.0F, 1e-30F});
  EXPECT_EQ(gradient, (std::vector<float>{0, 2, 0, 4}));
}

}  // namespace
}  // namespace sluice::kernels
