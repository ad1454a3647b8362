// A caller's wish to end its own call, made through the cancellation slot of its completion token.
//
// Asio's slots are not synchronised with the operation they belong to. So the slot is given this, once,
// before anything starts, and is never touched again: the wish may then be made from any thread, before
// the step has begun, while it runs, or after it has ended. Shared by the slot and the step's coroutine.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include <asio/any_io_executor.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_type.hpp>
#include <asio/co_spawn.hpp>

#include <sluice/step_core.hpp>

namespace sluice::detail {

class StopRequest {
 public:
  /// From any thread.
  void make();
  /// The step has begun: ends it as cancelled, now or as soon as somebody asks.
  void pass_on_to(const std::shared_ptr<StepCore>& step);

 private:
  std::mutex mutex_;
  bool made_ = false;
  std::weak_ptr<StepCore> step_;
};

/// A completion handler whose cancellation slot nobody sees.
template <class Handler>
class WithoutSlot {
 public:
  explicit WithoutSlot(Handler handler) : handler_(std::move(handler)) {}
  template <class... Results>
  void operator()(Results&&... results) {
    std::move(handler_)(std::forward<Results>(results)...);
  }

 private:
  Handler handler_;
};

/// Starts a call's coroutine on `executor`; the token's slot makes `stop`.
class StartCall {
 public:
  StartCall(asio::any_io_executor executor, std::shared_ptr<StopRequest> stop)
      : executor_(std::move(executor)), stop_(std::move(stop)) {}

  template <class Handler, class Coroutine>
  void operator()(Handler&& handler, Coroutine coroutine) const {
    auto slot = asio::get_associated_cancellation_slot(handler);
    if (slot.is_connected()) {
      slot.assign([stop = stop_](asio::cancellation_type) { stop->make(); });
    }
    const auto home = asio::get_associated_executor(handler, executor_);
    asio::co_spawn(executor_, std::move(coroutine),
                   asio::bind_executor(home, WithoutSlot(std::forward<Handler>(handler))));
  }

 private:
  asio::any_io_executor executor_;
  std::shared_ptr<StopRequest> stop_;
};

}  // namespace sluice::detail
