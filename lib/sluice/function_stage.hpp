// A stage, and a batch, made from functions, for those who do not want to write a class.
//
//     auto stage = make_stage<Tensor>(forward, backward);
//     auto batch = make_batch<Tensor>(samples, next);
//
// `forward(context, input)` returns the output, `backward(context, gradient)` the Gradients; either
// may be an ordinary function or a coroutine (one that returns asio::awaitable). A lambda that captures is
// fine, a coroutine lambda too: the stage owns it for as long as any of its calls can run. Executor and
// suspension are as stage.hpp says.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <asio/awaitable.hpp>

#include <sluice/stage.hpp>

namespace sluice {

/// What happens with the weights. Whatever is left empty does nothing.
template <class Value>
struct StageUpdate {
  std::function<void(MicrobatchId, Value)> accumulate;
  std::function<void(std::int64_t step)> prepare;  ///< may throw
  std::function<void()> commit;                    ///< must not throw
  std::function<void()> abort;                     ///< must not throw
};

template <class Value, class Forward, class Backward>
class FunctionStage final : public Stage<Value> {
 public:
  FunctionStage(Forward forward, Backward backward, StageUpdate<Value> update)
      : forward_(std::move(forward)), backward_(std::move(backward)), update_(std::move(update)) {}

  asio::awaitable<Value> forward(ActionContext<Value>& context, Value input) override {
    return call<Value>(forward_, context, std::move(input));
  }
  asio::awaitable<Gradients<Value>> backward(ActionContext<Value>& context,
                                             Value output_gradient) override {
    return call<Gradients<Value>>(backward_, context, std::move(output_gradient));
  }
  void accumulate(MicrobatchId mb, Value contribution) override {
    if (update_.accumulate) update_.accumulate(mb, std::move(contribution));
  }
  void prepare_update(std::int64_t step) override {
    if (update_.prepare) update_.prepare(step);
  }
  void commit() noexcept override {
    if (update_.commit) update_.commit();
  }
  void abort() noexcept override {
    if (update_.abort) update_.abort();
  }

 private:
  template <class Result, class Function>
  static asio::awaitable<Result> call(Function& function, ActionContext<Value>& context,
                                      Value value) {
    if constexpr (std::same_as<std::invoke_result_t<Function&, ActionContext<Value>&, Value>,
                               asio::awaitable<Result>>) {
      return function(context, std::move(value));
    } else {
      return at_once<Result>(function, context, std::move(value));
    }
  }

  // The stage, and with it `function`, outlives the call.
  template <class Result, class Function>
  static asio::awaitable<Result> at_once(Function& function, ActionContext<Value>& context,
                                         Value value) {
    co_return function(context, std::move(value));
  }

  Forward forward_;
  Backward backward_;
  StageUpdate<Value> update_;
};

/// A stage from two functions, and what is to happen with its weights.
template <class Value, class Forward, class Backward>
std::unique_ptr<Stage<Value>> make_stage(Forward forward, Backward backward,
                                         StageUpdate<Value> update = {}) {
  return std::make_unique<FunctionStage<Value, Forward, Backward>>(
      std::move(forward), std::move(backward), std::move(update));
}

/// A batch of `samples` in all whose microbatches an ordinary function makes: `next(mb)` returns
/// MicrobatchData<Value>, or throws EndOfBatch.
template <class Value, class Next>
Batch<Value> make_batch(std::int64_t samples, Next next) {
  class Source final : public BatchSource<Value> {
   public:
    explicit Source(Next function) : next_(std::move(function)) {}
    asio::awaitable<MicrobatchData<Value>> next(MicrobatchId mb) override { co_return next_(mb); }

   private:
    Next next_;
  };
  return Batch<Value>(std::make_shared<Source>(std::move(next)), samples);
}

}  // namespace sluice
