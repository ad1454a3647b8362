// A perceptron by hand: stages driven one action after another, with no pipeline, against the plain
// loop and against arithmetic in doubles.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/use_future.hpp>

#include <sluice/kernels/elementwise.hpp>
#include <sluice/kernels/perceptron_stage.hpp>
#include <sluice/kernels/plain_loop.hpp>
#include <sluice/random.hpp>

namespace sluice::kernels {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Perceptron model({20, 32, 16, 40, 10});

/// M microbatches of these sizes, the same for the same step.
std::vector<PlainLoop::Microbatch> make_batch(std::int64_t step,
                                              const std::vector<std::int64_t>& sizes) {
  std::vector<PlainLoop::Microbatch> batch;
  std::int64_t sample = 0;
  for (const std::int64_t size : sizes) {
    PlainLoop::Microbatch mb;
    mb.input = Tensor::zeros(DType::f32, Dims{size, model.widths.front()});
    mb.labels = Tensor::zeros(DType::s32, Dims{size});
    const auto width = static_cast<std::size_t>(model.widths.front());
    for (std::size_t n = 0; n < static_cast<std::size_t>(size); ++n) {
      KeyedRandom random(7, step, "data", sample++, "test");
      for (std::size_t i = 0; i < width; ++i) {
        mb.input.f32()[n * width + i] = 2.0F * random.uniform() - 1.0F;
      }
      mb.labels.s32()[n] = static_cast<std::int32_t>(random.below(10));
    }
    batch.push_back(std::move(mb));
  }
  return batch;
}

template <class T>
T get(asio::awaitable<T> work) {
  asio::io_context context;
  auto result = asio::co_spawn(context, std::move(work), asio::use_future);
  context.run();
  return result.get();
}

/// S stages and the few lines that a pipeline does for them.
class ByHand {
 public:
  ByHand(int stages, const PerceptronStageOptions& options) : cut_(partition(model, stages)) {
    for (int s = 0; s < stages; ++s) {
      StageContext context;
      context.stage = StageId(s);
      context.stages = stages;
      context.seed = 3;
      stages_.push_back(std::make_unique<PerceptronStage>(context, model, cut_, options));
    }
  }

  ActionContext<Tensor> context(int stage, Phase phase, std::size_t mb, const Tensor* labels,
                                std::int64_t batch_samples) const {
    ActionContext<Tensor> context;
    context.action = Action(StageId(stage), phase, MicrobatchId(static_cast<std::int64_t>(mb)));
    context.batch_samples = batch_samples;
    const bool last = stage + 1 == static_cast<int>(stages_.size());
    context.target = last ? labels : nullptr;
    return context;
  }

  /// Returns the summed loss.
  double forward(std::size_t mb, const PlainLoop::Microbatch& data, std::int64_t batch_samples,
                 bool training = true) {
    Tensor value = data.input.clone();
    double loss = 0;
    for (int s = 0; s < static_cast<int>(stages_.size()); ++s) {
      auto action = context(s, Phase::forward, mb, &data.labels, batch_samples);
      action.training = training;
      value = get(stages_[static_cast<std::size_t>(s)]->forward(action, std::move(value)));
      loss = action.reported_loss();
    }
    predictions_.resize(std::max(predictions_.size(), mb + 1));
    predictions_[mb] = std::move(value);
    return loss;
  }

  std::vector<Tensor> backward(std::size_t mb, const PlainLoop::Microbatch& data,
                               std::int64_t batch_samples) {
    std::vector<Tensor> contributions(stages_.size());
    Tensor gradient = std::move(predictions_[mb]);
    for (int s = static_cast<int>(stages_.size()); s-- > 0;) {
      auto action = context(s, Phase::backward, mb, &data.labels, batch_samples);
      auto gradients =
          get(stages_[static_cast<std::size_t>(s)]->backward(action, std::move(gradient)));
      gradient = std::move(gradients.input);
      contributions[static_cast<std::size_t>(s)] = std::move(gradients.contribution);
    }
    EXPECT_TRUE(gradient.empty()) << "nobody asks stage 0 for an input gradient";
    return contributions;
  }

  /// All forwards, then all backwards in descending order, gradients added in ascending order: as
  /// far from the plain loop as a schedule can be.
  double step(const std::vector<PlainLoop::Microbatch>& batch) {
    std::int64_t samples = 0;
    for (const auto& mb : batch) samples += mb.input.dims()[0];
    double loss = 0;
    for (std::size_t m = 0; m < batch.size(); ++m) loss += forward(m, batch[m], samples);
    std::vector<std::vector<Tensor>> contributions(batch.size());
    for (std::size_t m = batch.size(); m-- > 0;) {
      contributions[m] = backward(m, batch[m], samples);
    }
    for (std::size_t m = 0; m < batch.size(); ++m) {
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        stages_[s]->accumulate(MicrobatchId(static_cast<std::int64_t>(m)),
                               std::move(contributions[m][s]));
      }
    }
    for (const auto& stage : stages_) stage->prepare_update(0);
    for (const auto& stage : stages_) stage->commit();
    return loss;
  }

  std::vector<ParameterHash> hashes() {
    std::vector<PerceptronStage*> pointers;
    for (const auto& stage : stages_) pointers.push_back(stage.get());
    return model_hashes(pointers);
  }

  PerceptronStage& stage(std::size_t s) { return *stages_[s]; }
  PerceptronStage& last() { return *stages_.back(); }

 private:
  std::vector<LayerRange> cut_;
  std::vector<std::unique_ptr<PerceptronStage>> stages_;
  std::vector<Tensor> predictions_;
};

PerceptronStageOptions usual() {
  PerceptronStageOptions options;
  options.micro_samples = 8;
  options.sgd.weight_decay = 0.001F;
  return options;
}

PartOptions plain(const PerceptronStageOptions& options) {
  PartOptions part;
  part.seed = 3;
  part.micro_samples = options.micro_samples;
  part.sgd = options.sgd;
  return part;
}

TEST(Perceptron, AnyCutEqualsThePlainLoopBitForBit) {
  const std::vector<std::int64_t> sizes{8, 8, 8, 5};
  PlainLoop loop(model, plain(usual()));
  const std::uint64_t initial = weights_hash(loop.hashes());
  std::vector<double> losses;
  for (int step = 0; step < 5; ++step) losses.push_back(loop.step(make_batch(step, sizes)).loss);
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

// ---- gradients -------------------------------------------------------------------------------

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

// ---- everything else a stage promises --------------------------------------------------------

TEST(PerceptronStage, EvaluationKeepsNothingAndScores) {
  ByHand by_hand(2, usual());
  const auto batch = make_batch(0, {8, 3});
  const std::uint64_t before = state_hash(by_hand.hashes());
  const double loss =
      by_hand.forward(0, batch[0], 11, false) + by_hand.forward(1, batch[1], 11, false);
  const Score score = by_hand.last().take_score();
  EXPECT_EQ(score.samples, 11);
  EXPECT_EQ(score.loss, loss);
  EXPECT_EQ(by_hand.last().take_score().samples, 0);
  EXPECT_EQ(state_hash(by_hand.hashes()), before);
  EXPECT_THAT([&] { by_hand.backward(0, batch[0], 11); },
              ThrowsMessage<std::logic_error>(AllOf(HasSubstr("1B0 (stage 1, mb 0, phase B"),
                                                    HasSubstr("check the schedule"))));
}

TEST(PerceptronStage, AbortLeavesWeightsAndForgetsTheStep) {
  ByHand by_hand(2, usual());
  ByHand untouched(2, usual());
  const auto batch = make_batch(0, {8, 8});
  by_hand.forward(0, batch[0], 16);
  by_hand.forward(1, batch[1], 16);
  for (std::size_t s = 0; s < 2; ++s) {
    auto contributions = by_hand.backward(s, batch[s], 16);
    by_hand.stage(s).accumulate(MicrobatchId(0), std::move(contributions[s]));
    by_hand.stage(s).prepare_update(0);
  }
  by_hand.stage(0).abort();
  by_hand.stage(1).abort();
  EXPECT_EQ(state_hash(by_hand.hashes()), state_hash(untouched.hashes()));
  EXPECT_THROW(by_hand.stage(0).prepare_update(0), std::logic_error);

  by_hand.step(batch);
  untouched.step(batch);
  EXPECT_EQ(state_hash(by_hand.hashes()), state_hash(untouched.hashes()));
}

TEST(PerceptronStage, AFailedPrepareChangesNothing) {
  PerceptronStageOptions options = usual();
  options.sgd.check_finite = true;
  ByHand by_hand(1, options);
  const std::uint64_t before = state_hash(by_hand.hashes());
  const auto batch = make_batch(0, {8});
  by_hand.forward(0, batch[0], 8);
  auto contributions = by_hand.backward(0, batch[0], 8);
  contributions[0].f32().back() = std::numeric_limits<float>::infinity();
  by_hand.stage(0).accumulate(MicrobatchId(0), std::move(contributions[0]));
  EXPECT_THAT([&] { by_hand.stage(0).prepare_update(0); },
              ThrowsMessage<NonFiniteError>(
                  AllOf(HasSubstr("gradient of layers.3"), HasSubstr("found inf"))));
  by_hand.stage(0).abort();
  EXPECT_EQ(state_hash(by_hand.hashes()), before);
}

TEST(PerceptronStage, TheFirstBadNumberIsNamedByItsAction) {
  PerceptronStageOptions options = usual();
  options.sgd.check_finite = true;
  ByHand by_hand(2, options);
  auto batch = make_batch(0, {8, 8});
  batch[1].input.f32()[5] = std::numeric_limits<float>::infinity();
  by_hand.forward(0, batch[0], 16);
  EXPECT_THAT([&] { by_hand.forward(1, batch[1], 16); },
              ThrowsMessage<NonFiniteError>(HasSubstr("0F1 (stage 0, mb 1, phase F, step 0)")));
}

// Buffers are recycled: what an earlier, longer microbatch left in them must not show.
TEST(PerceptronStage, RecycledBuffersDoNotLeak) {
  ByHand fresh(2, usual());
  ByHand used(2, usual());
  auto poison = make_batch(0, {8, 8, 8, 8});
  for (auto& mb : poison) {
    for (float& value : mb.input.f32()) value = std::numeric_limits<float>::quiet_NaN();
  }
  for (std::size_t m = 0; m < poison.size(); ++m) used.forward(m, poison[m], 32);
  for (std::size_t m = 0; m < poison.size(); ++m) {
    auto contributions = used.backward(m, poison[m], 32);
    for (std::size_t s = 0; s < 2; ++s) {
      used.stage(s).accumulate(MicrobatchId(static_cast<std::int64_t>(m)),
                               std::move(contributions[s]));
    }
  }
  used.stage(0).abort();
  used.stage(1).abort();
  const auto ragged = make_batch(1, {8, 8, 3});
  EXPECT_EQ(used.step(ragged), fresh.step(ragged));
  EXPECT_EQ(state_hash(used.hashes()), state_hash(fresh.hashes()));
}

TEST(PerceptronStage, RestoreContinuesWhereTheSnapshotWasTaken) {
  ByHand original(2, usual());
  original.step(make_batch(0, {8, 8}));
  ByHand copy(2, usual());
  for (std::size_t s = 0; s < 2; ++s) {
    copy.stage(s).part().restore(original.stage(s).part().snapshot());
  }
  EXPECT_EQ(state_hash(copy.hashes()), state_hash(original.hashes()));
  original.step(make_batch(1, {8, 8}));
  copy.step(make_batch(1, {8, 8}));
  EXPECT_EQ(state_hash(copy.hashes()), state_hash(original.hashes()));

  EXPECT_THAT([&] { copy.stage(0).part().restore(copy.stage(1).part().snapshot()); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("expected layers.0.weight (32, 20)")));
}

TEST(PerceptronStage, ComputesOnWhateverThreadResumesIt) {
  ByHand here(2, usual());
  ByHand there(2, usual());
  for (int step = 0; step < 3; ++step) {
    const auto batch = make_batch(step, {8, 8, 5});
    const double loss = here.step(batch);
    double loss_there = 0;
    std::thread([&] { loss_there = there.step(batch); }).join();
    EXPECT_EQ(loss_there, loss);
  }
  EXPECT_EQ(state_hash(there.hashes()), state_hash(here.hashes()));
}

TEST(PerceptronStage, MisuseIsExplained) {
  StageContext context;
  context.stages = 3;
  EXPECT_THAT([&] { PerceptronStage(context, model, partition(model, 2), usual()); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("expected a cut of the model into 3 parts, found 2")));

  ByHand by_hand(1, usual());
  auto batch = make_batch(0, {8});
  auto action = by_hand.context(0, Phase::forward, 0, nullptr, 8);
  EXPECT_THAT([&] { get(by_hand.stage(0).forward(action, batch[0].input.clone())); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("0F0")));
  batch[0].labels.s32()[2] = 10;
  EXPECT_THAT([&] { by_hand.forward(0, batch[0], 8); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("label of sample 2"), HasSubstr("expected 0..9, found 10"))));
  EXPECT_THROW(by_hand.stage(0).accumulate(MicrobatchId(0), Tensor()), std::invalid_argument);
}

TEST(PerceptronStage, SaysWhatDecidesItsBits) {
  ByHand by_hand(2, usual());
  EXPECT_EQ(by_hand.stage(0).identity().threads, 1);
  EXPECT_FALSE(by_hand.stage(0).part().implementations().empty());
  EXPECT_EQ(by_hand.stage(0).part().kept_bytes(8), 8U * 4U * (20 + 32 + 16));
  EXPECT_GT(by_hand.stage(0).part().cache().misses, 0U);
}

}  // namespace
}  // namespace sluice::kernels
