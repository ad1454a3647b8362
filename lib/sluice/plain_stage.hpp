// A stage, and a batch, from plain parts, for those who do not want to derive from Stage.
//
//     auto stage = make_stage<Tensor>(Layer{...});          // a struct with some of Stage's functions
//     auto stage = make_stage<Tensor>(forward, backward);   // two functions, no weights
//     auto batch = make_batch<Tensor>(samples, next);
//
// The struct has `forward(context, input)` and `backward(context, gradient)`, and whatever else of Stage
// it wants, under the same names: accumulate, prepare_update, commit, abort, input_gradient,
// weight_gradient, determinism, state_hash. What it leaves out does nothing (and is not split). A stage
// function may be an ordinary one or a coroutine (one that returns asio::awaitable); a lambda that
// captures is fine, a coroutine lambda too: the stage owns it for as long as any of its calls can run.
// Executor and suspension are as stage.hpp says.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <asio/awaitable.hpp>

#include <sluice/stage.hpp>

namespace sluice {

template <class Value, class Parts>
class PlainStage final : public Stage<Value> {
  using Context = ActionContext<Value>;

 public:
  explicit PlainStage(Parts parts) : parts_(std::move(parts)) {}

  asio::awaitable<Value> forward(Context& context, Value input) override {
    using Returned = decltype(parts_.forward(context, std::move(input)));
    if constexpr (std::same_as<Returned, asio::awaitable<Value>>) {
      return parts_.forward(context, std::move(input));
    } else {
      return forward_at_once(context, std::move(input));
    }
  }

  asio::awaitable<Gradients<Value>> backward(Context& context, Value output_gradient) override {
    using Returned = decltype(parts_.backward(context, std::move(output_gradient)));
    if constexpr (std::same_as<Returned, asio::awaitable<Gradients<Value>>>) {
      return parts_.backward(context, std::move(output_gradient));
    } else {
      return backward_at_once(context, std::move(output_gradient));
    }
  }

  asio::awaitable<Value> input_gradient(Context& context, Value output_gradient) override {
    if constexpr (!requires { parts_.input_gradient(context, std::move(output_gradient)); }) {
      return Stage<Value>::input_gradient(context, std::move(output_gradient));
    } else if constexpr (requires(asio::awaitable<Value>& returned) {
                           returned = parts_.input_gradient(context, std::move(output_gradient));
                         }) {
      return parts_.input_gradient(context, std::move(output_gradient));
    } else {
      return input_gradient_at_once(context, std::move(output_gradient));
    }
  }
  asio::awaitable<Value> weight_gradient(Context& context) override {
    if constexpr (!requires { parts_.weight_gradient(context); }) {
      return Stage<Value>::weight_gradient(context);
    } else if constexpr (requires(asio::awaitable<Value>& returned) {
                           returned = parts_.weight_gradient(context);
                         }) {
      return parts_.weight_gradient(context);
    } else {
      return weight_gradient_at_once(context);
    }
  }

  void accumulate(MicrobatchId mb, Value contribution) override {
    if constexpr (requires { parts_.accumulate(mb, std::move(contribution)); }) {
      parts_.accumulate(mb, std::move(contribution));
    }
  }
  void prepare_update(std::int64_t step) override {
    if constexpr (requires { parts_.prepare_update(step); }) parts_.prepare_update(step);
  }
  void commit() noexcept override {
    if constexpr (requires { parts_.commit(); }) parts_.commit();
  }
  void abort() noexcept override {
    if constexpr (requires { parts_.abort(); }) parts_.abort();
  }
  Determinism determinism() const override {
    if constexpr (requires { parts_.determinism(); }) return parts_.determinism();
    return Stage<Value>::determinism();
  }
  std::optional<std::uint64_t> state_hash() const override {
    if constexpr (requires { parts_.state_hash(); }) return parts_.state_hash();
    return Stage<Value>::state_hash();
  }

  Parts& parts() { return parts_; }

 private:
  // The stage, and with it `parts_`, outlives the call.
  asio::awaitable<Value> forward_at_once(Context& context, Value input) {
    co_return parts_.forward(context, std::move(input));
  }
  asio::awaitable<Gradients<Value>> backward_at_once(Context& context, Value output_gradient) {
    co_return parts_.backward(context, std::move(output_gradient));
  }
  asio::awaitable<Value> input_gradient_at_once(Context& context, Value output_gradient) {
    co_return parts_.input_gradient(context, std::move(output_gradient));
  }
  asio::awaitable<Value> weight_gradient_at_once(Context& context) {
    co_return parts_.weight_gradient(context);
  }

  Parts parts_;
};

/// A stage from a struct that has some of Stage's functions.
template <class Value, class Parts>
std::unique_ptr<PlainStage<Value, Parts>> make_stage(Parts parts) {
  return std::make_unique<PlainStage<Value, Parts>>(std::move(parts));
}

/// A stage without weights from two functions.
template <class Value, class Forward, class Backward>
std::unique_ptr<Stage<Value>> make_stage(Forward forward, Backward backward) {
  struct Functions {
    Forward forward;
    Backward backward;
  };
  return make_stage<Value>(Functions{std::move(forward), std::move(backward)});
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
