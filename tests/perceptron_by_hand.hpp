// A small model and its stages, driven one action after another with no pipeline: what tests of
// kernels compare against the plain loop. Included by tests only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/use_future.hpp>

#include <sluice/kernels/perceptron_stage.hpp>
#include <sluice/kernels/plain_loop.hpp>
#include <sluice/random.hpp>

namespace sluice::kernels {

inline const Perceptron model({20, 32, 16, 40, 10});

/// M microbatches of these sizes, the same for the same step.
inline std::vector<PlainLoop::Microbatch> make_batch(std::int64_t step,
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
      loss = action.reported.loss;
      for (const Figure& figure : action.reported.figures) {
        if (figure.name == "correct") correct_ += figure.sum;
      }
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
    update(std::move(contributions));
    return loss;
  }

  /// I on every stage, last to first.
  void input_gradients(std::size_t mb, const PlainLoop::Microbatch& data,
                       std::int64_t batch_samples) {
    Tensor gradient = std::move(predictions_[mb]);
    for (int s = static_cast<int>(stages_.size()); s-- > 0;) {
      auto action = context(s, Phase::input_gradient, mb, &data.labels, batch_samples);
      gradient =
          get(stages_[static_cast<std::size_t>(s)]->input_gradient(action, std::move(gradient)));
    }
  }

  /// W on every stage.
  std::vector<Tensor> weight_gradients(std::size_t mb, std::int64_t batch_samples) {
    std::vector<Tensor> contributions;
    for (int s = 0; s < static_cast<int>(stages_.size()); ++s) {
      auto action = context(s, Phase::weight_gradient, mb, nullptr, batch_samples);
      contributions.push_back(get(stages_[static_cast<std::size_t>(s)]->weight_gradient(action)));
    }
    return contributions;
  }

  /// `contributions`: by microbatch, then by stage.
  void update(std::vector<std::vector<Tensor>> contributions) {
    for (std::size_t m = 0; m < contributions.size(); ++m) {
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        stages_[s]->accumulate(MicrobatchId(static_cast<std::int64_t>(m)),
                               std::move(contributions[m][s]));
      }
    }
    for (const auto& stage : stages_) stage->prepare_update(0);
    for (const auto& stage : stages_) stage->commit();
  }

  std::vector<ParameterHash> hashes() {
    std::vector<PerceptronStage*> pointers;
    for (const auto& stage : stages_) pointers.push_back(stage.get());
    return model_hashes(pointers);
  }

  PerceptronStage& stage(std::size_t s) { return *stages_[s]; }
  double correct() const { return correct_; }

 private:
  std::vector<LayerRange> cut_;
  std::vector<std::unique_ptr<PerceptronStage>> stages_;
  double correct_ = 0;
  std::vector<Tensor> predictions_;
};

inline PerceptronStageOptions usual() {
  PerceptronStageOptions options;
  options.micro_samples = 8;
  options.sgd.weight_decay = 0.001F;
  return options;
}

inline PartOptions plain(const PerceptronStageOptions& options) {
  PartOptions part;
  part.seed = 3;
  part.micro_samples = options.micro_samples;
  part.sgd = options.sgd;
  return part;
}

}  // namespace sluice::kernels
