// A model small enough to check by hand: every stage multiplies by one weight.
//
// y = w_{S-1} * ... * w_0 * x, loss = (y - target)^2 / 2 summed over the microbatch. Built for the
// runtime's tests: stages can be told to throw or to suspend at a given action.
#pragma once

#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <asio/awaitable.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/compiled_once.hpp>
#include <sluice/pipeline.hpp>

namespace sluice::test {

/// What travels between stages.
struct Toy {
  double x = 0;
};

}  // namespace sluice::test

namespace sluice {

template <>
struct WireTraits<test::Toy> {
  static constexpr bool hashes = true;
  static std::uint64_t hash(const test::Toy& toy) { return std::bit_cast<std::uint64_t>(toy.x); }
  static std::string encode(const test::Toy& toy) { return fmt::format("{}", toy.x); }
};

}  // namespace sluice

SLUICE_COMPILED_ONCE(extern template, sluice::test::Toy)

namespace sluice::test {

struct ToyHooks {
  /// Called on entry of every action; may throw.
  std::function<void(const Action&)> on_enter;
  /// How many times an action yields to others before it goes on.
  std::function<int(const Action&)> yields;
};

class ToyStage final : public Stage<Toy> {
 public:
  ToyStage(double weight, std::shared_ptr<const ToyHooks> hooks)
      : weight_(weight), hooks_(std::move(hooks)) {}

  asio::awaitable<Toy> forward(ActionContext<Toy>& context, Toy input) override {
    co_await begin(context.action);
    const double y = weight_ * input.x;
    if (context.training) inputs_[context.action.mb] = input.x;
    Toy result{y};
    if (context.target != nullptr) {
      const double distance = y - context.target->x;
      context.report_loss(distance * distance / 2 * static_cast<double>(context.samples));
      if (context.training) {
        result.x = distance * static_cast<double>(context.samples) /
                   static_cast<double>(context.batch_samples);
      }
    }
    peak_held_ = std::max(peak_held_, inputs_.size());
    co_return result;
  }

  asio::awaitable<Gradients<Toy>> backward(ActionContext<Toy>& context, Toy output) override {
    co_await begin(context.action);
    const auto kept = inputs_.extract(context.action.mb);
    co_return Gradients<Toy>(Toy{output.x * weight_}, Toy{output.x * kept.mapped()});
  }

  asio::awaitable<Toy> input_gradient(ActionContext<Toy>& context, Toy output) override {
    co_await begin(context.action);
    outputs_[context.action.mb] = output.x;
    co_return Toy{output.x * weight_};
  }

  asio::awaitable<Toy> weight_gradient(ActionContext<Toy>& context) override {
    co_await begin(context.action);
    const auto input = inputs_.extract(context.action.mb);
    const auto output = outputs_.extract(context.action.mb);
    co_return Toy{output.mapped() * input.mapped()};
  }

  void accumulate(MicrobatchId mb, Toy contribution) override {
    order_.push_back(mb);
    gradient_ += contribution.x;
  }
  void prepare_update(std::int64_t) override {
    if (fail_prepare) throw std::runtime_error("no memory for the update");
  }
  void commit() noexcept override {
    weight_ -= 0.01 * gradient_;
    abort();
    ++commits;
  }
  void abort() noexcept override {
    gradient_ = 0;
    inputs_.clear();
    outputs_.clear();
    order_.clear();
  }
  std::optional<std::uint64_t> state_hash() const override {
    return std::bit_cast<std::uint64_t>(weight_);
  }

  double weight() const { return weight_; }
  std::size_t kept() const { return inputs_.size(); }
  std::size_t peak_held() const { return peak_held_; }

  bool fail_prepare = false;
  int commits = 0;

 private:
  asio::awaitable<void> begin(Action action) {
    if (hooks_->on_enter) hooks_->on_enter(action);
    const int yields = hooks_->yields ? hooks_->yields(action) : 0;
    for (int i = 0; i < yields; ++i) co_await asio::post(asio::use_awaitable);
  }

  double weight_;
  double gradient_ = 0;
  std::map<MicrobatchId, double> inputs_;
  std::map<MicrobatchId, double> outputs_;  // gradients, between I and W
  std::vector<MicrobatchId> order_;
  std::size_t peak_held_ = 0;
  std::shared_ptr<const ToyHooks> hooks_;
};

inline double toy_weight(StageId stage) { return 0.5 + 0.125 * stage.value; }

inline StageFactory<Toy> toy_factory(std::shared_ptr<const ToyHooks> hooks) {
  return [hooks = std::move(hooks)](const StageContext& context) {
    return std::make_unique<ToyStage>(toy_weight(context.stage), hooks);
  };
}

/// M microbatches of `samples` each; ends early after `available` when that is smaller.
class ToySource final : public BatchSource<Toy> {
 public:
  ToySource(int step, std::int64_t samples, int available)
      : step_(step), samples_(samples), available_(available) {}

  asio::awaitable<MicrobatchData<Toy>> next(MicrobatchId mb) override {
    if (mb.value >= available_) throw EndOfBatch();
    co_return MicrobatchData<Toy>(Toy{input(step_, mb)}, Toy{target(step_, mb)}, samples_);
  }

  static double input(int step, MicrobatchId mb) { return 1.0 / (3 + mb.value + step); }
  static double target(int step, MicrobatchId mb) { return 0.1 * (mb.value % 7) - 0.01 * step; }

 private:
  int step_;
  std::int64_t samples_;
  int available_;
};

inline Batch<Toy> toy_batch(int step, int microbatches, int available = 1 << 30) {
  return Batch<Toy>(std::make_shared<ToySource>(step, 2, available), 2 * microbatches);
}

/// What a plain loop makes of the same weights, with no runtime at all: microbatch by microbatch,
/// gradients added in ascending order. Returns the weights after `steps` steps, from step `first` on.
inline std::vector<double> toy_plain_loop(int stages, int microbatches, int steps, int first = 0) {
  std::vector<double> weights;
  for (int s = 0; s < stages; ++s) weights.push_back(toy_weight(StageId(s)));
  const double batch_samples = 2.0 * microbatches;
  for (int step = first; step < first + steps; ++step) {
    std::vector<double> gradients(weights.size(), 0.0);
    for (MicrobatchId mb(0); mb.value < microbatches; mb = mb.next()) {
      std::vector<double> inputs;
      double x = ToySource::input(step, mb);
      for (double weight : weights) {
        inputs.push_back(x);
        x = weight * x;
      }
      double gradient = (x - ToySource::target(step, mb)) * 2.0 / batch_samples;
      for (std::size_t s = weights.size(); s-- > 0;) {
        gradients[s] += gradient * inputs[s];
        gradient *= weights[s];
      }
    }
    for (std::size_t s = 0; s < weights.size(); ++s) weights[s] -= 0.01 * gradients[s];
  }
  return weights;
}

}  // namespace sluice::test
