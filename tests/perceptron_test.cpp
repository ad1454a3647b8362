// The numbers of a perceptron: any cut against the plain loop, gradients against doubles.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "perceptron_by_hand.hpp"

namespace sluice::kernels {
namespace {

TEST(Perceptron, AnyCutEqualsThePlainLoopBitForBit) {
  const std::vector<std::int64_t> sizes{8, 8, 8, 5};
  PlainLoop loop(model, plain(usual()));
  const std::uint64_t initial = weights_hash(loop.hashes());
  std::vector<double> losses(5);
  for (std::size_t step = 0; step < losses.size(); ++step) {
    losses[step] = loop.step(make_batch(static_cast<std::int64_t>(step), sizes)).loss;
  }
  EXPECT_NE(weights_hash(loop.hashes()), initial);

  for (const int stages : {1, 2, 3, 4}) {
    ByHand by_hand(stages, usual());
    EXPECT_EQ(weights_hash(by_hand.hashes()), initial);
    for (int step = 0; step < 5; ++step) {
      EXPECT_EQ(by_hand.step(make_batch(step, sizes)), losses[static_cast<std::size_t>(step)]);
    }
    EXPECT_EQ(weights_hash(by_hand.hashes()), weights_hash(loop.hashes())) << stages << " stages";
    EXPECT_EQ(state_hash(by_hand.hashes()), state_hash(loop.hashes())) << stages << " stages";
    EXPECT_TRUE(by_hand.stage(0).state_hash().has_value());
  }
}

TEST(Perceptron, TrainingReducesTheLoss) {
  PlainLoop loop(model, plain(usual()));
  const auto batch = make_batch(0, {8, 8});
  const double before = loop.step(batch).loss;
  for (int i = 0; i < 100; ++i) loop.step(batch);
  EXPECT_LT(loop.step(batch).loss, 0.2 * before);
}

/// The mean loss in doubles, of weights held as row-major parameters.
double loss_in_doubles(const std::vector<Parameter>& parameters, const PlainLoop::Microbatch& mb) {
  const auto samples = static_cast<std::size_t>(mb.input.dims()[0]);
  std::vector<double> value(mb.input.f32().begin(), mb.input.f32().end());
  for (std::size_t l = 0; 2 * l < parameters.size(); ++l) {
    const auto weight = parameters[2 * l].value.f32();
    const auto bias = parameters[2 * l + 1].value.f32();
    const std::size_t outputs = bias.size();
    const std::size_t inputs = weight.size() / outputs;
    std::vector<double> next(samples * outputs);
    for (std::size_t n = 0; n < samples; ++n) {
      for (std::size_t o = 0; o < outputs; ++o) {
        double sum = bias[o];
        for (std::size_t i = 0; i < inputs; ++i) {
          sum += value[n * inputs + i] * weight[o * inputs + i];
        }
        next[n * outputs + o] = 2 * l + 2 < parameters.size() ? std::max(sum, 0.0) : sum;
      }
    }
    value = std::move(next);
  }
  const std::size_t classes = value.size() / samples;
  double loss = 0;
  for (std::size_t n = 0; n < samples; ++n) {
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(value[n * classes + c]);
    loss += std::log(sum) - value[n * classes + static_cast<std::size_t>(mb.labels.s32()[n])];
  }
  return loss / static_cast<double>(samples);
}

// With momentum 0 and a learning rate of 1 the update is the gradient.
TEST(Perceptron, GradientsMatchFiniteDifferencesOfTheLossInDoubles) {
  PerceptronStageOptions options = usual();
  options.sgd.learning_rate = 1.0F;
  options.sgd.momentum = 0.0F;
  options.sgd.weight_decay = 0.0F;
  ByHand by_hand(1, options);
  const auto batch = make_batch(0, {8});
  std::vector<Parameter> before = by_hand.stage(0).part().snapshot();
  EXPECT_NEAR(by_hand.step(batch) / 8, loss_in_doubles(before, batch[0]), 1e-5);
  const std::vector<Parameter> after = by_hand.stage(0).part().snapshot();

  int checked = 0;
  for (std::size_t p = 0; p < before.size(); ++p) {
    const auto values = before[p].value.f32();
    for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 40) {
      const float kept = values[i];
      const auto loss_at = [&](float value) {
        values[i] = value;
        return loss_in_doubles(before, batch[0]);
      };
      constexpr float h = 0x1p-12F;  // kept +- h is exact enough, and ReLUs rarely switch within it
      const double difference =
          (loss_at(kept + h) - loss_at(kept - h)) / (static_cast<double>(kept + h) - (kept - h));
      values[i] = kept;
      EXPECT_NEAR(static_cast<double>(kept) - after[p].value.f32()[i], difference, 2e-4)
          << before[p].path << " element " << i;
      EXPECT_EQ(after[p].velocity.f32()[i] != 0.0F, after[p].value.f32()[i] != kept);
      ++checked;
    }
  }
  EXPECT_GT(checked, 200);
}

}  // namespace
}  // namespace sluice::kernels
