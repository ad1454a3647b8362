// FailingStage: another stage that throws at one action of one step, to see what a failure does.
//
// Made for the stage that `train.fail` names; everything else it hands on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <sluice/stage.hpp>

namespace sluice::tools {

template <class Value>
class FailingStage final : public Stage<Value> {
 public:
  FailingStage(std::unique_ptr<Stage<Value>> stage, const Action& action, std::int64_t step)
      : stage_(std::move(stage)), action_(action), step_(step) {}

  asio::awaitable<Value> forward(ActionContext<Value>& context, Value input) override {
    fail_at(context);
    return stage_->forward(context, std::move(input));
  }
  asio::awaitable<Gradients<Value>> backward(ActionContext<Value>& context,
                                             Value output_gradient) override {
    fail_at(context);
    return stage_->backward(context, std::move(output_gradient));
  }
  asio::awaitable<Value> input_gradient(ActionContext<Value>& context,
                                        Value output_gradient) override {
    fail_at(context);
    return stage_->input_gradient(context, std::move(output_gradient));
  }
  asio::awaitable<Value> weight_gradient(ActionContext<Value>& context) override {
    fail_at(context);
    return stage_->weight_gradient(context);
  }
  void accumulate(MicrobatchId mb, Value contribution) override {
    stage_->accumulate(mb, std::move(contribution));
  }
  void prepare_update(std::int64_t step) override { stage_->prepare_update(step); }
  void commit() noexcept override { stage_->commit(); }
  void abort() noexcept override { stage_->abort(); }
  Determinism determinism() const override { return stage_->determinism(); }
  std::optional<std::uint64_t> state_hash() const override { return stage_->state_hash(); }

 private:
  void fail_at(const ActionContext<Value>& context) const {
    if (!context.training || context.step != step_ || context.action != action_) return;
    throw std::runtime_error(fmt::format("train.fail = {} asked for this failure in step {}",
                                         to_string(action_), step_));
  }

  std::unique_ptr<Stage<Value>> stage_;
  Action action_;
  std::int64_t step_;
};

}  // namespace sluice::tools
