// A call of the embedder's: starts its coroutine, and answers whoever awaits it, exactly once.
//
// Asio would drop a completion handler in silence when it finds no memory to start the coroutine or to
// hand on its result. Here the first is an exception out of the call, and the second ends the process,
// which says so. On the executor of rank 0; the answer comes through the handler's own.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

#include <asio/any_io_executor.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/awaitable.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_type.hpp>
#include <asio/dispatch.hpp>
#include <asio/executor_work_guard.hpp>

#include <sluice/messages.hpp>
#include <sluice/step_result.hpp>
#include <sluice/stop_request.hpp>

namespace sluice::detail {

/// Who awaits the call.
class Caller {
 public:
  /// `executor`: on which the call runs.
  explicit Caller(const asio::any_io_executor& executor) : messages_(for_messages(executor)) {}
  virtual ~Caller() = default;

  bool answered() const { return answered_; }

  static void answer(std::shared_ptr<Caller> caller, std::exception_ptr error,
                     StepResult result) noexcept;

 protected:
  /// Hands error and result to whoever waits, on their executor. `self` is this caller.
  virtual void deliver(const std::shared_ptr<Caller>& self) = 0;

  std::exception_ptr error_;
  StepResult result_;

 private:
  asio::any_io_executor messages_;
  std::atomic<bool> answered_{false};
};

/// A completion handler, whose cancellation slot nobody sees.
template <class Handler>
class HandlerCaller final : public Caller {
 public:
  HandlerCaller(Handler handler, const asio::any_io_executor& executor)
      : Caller(executor),
        work_(asio::make_work_guard(handler, executor)),
        handler_(std::move(handler)) {}

 private:
  void deliver(const std::shared_ptr<Caller>& self) override {
    try {
      asio::dispatch(asio::bind_executor(work_.get_executor(), [this, self] {
        called_ = true;
        work_.reset();
        std::move(handler_)(std::move(error_), std::move(result_));
      }));
    } catch (...) {
      if (!called_) end_without_memory();
      throw;  // what the handler throws is its executor's affair
    }
  }

  decltype(asio::make_work_guard(std::declval<Handler&>(),
                                 std::declval<const asio::any_io_executor&>())) work_;
  Handler handler_;
  bool called_ = false;
};

/// Runs `call` on `executor`, and answers `caller`. Throws std::bad_alloc when it could not begin.
void start_call(const asio::any_io_executor& executor, asio::awaitable<StepResult> call,
                std::shared_ptr<Caller> caller);

/// The initiation of an asynchronous call: the token's slot makes `stop`.
class StartCall {
 public:
  StartCall(asio::any_io_executor executor, std::shared_ptr<StopRequest> stop)
      : executor_(std::move(executor)), stop_(std::move(stop)) {}

  template <class Handler>
  void operator()(Handler&& handler, asio::awaitable<StepResult> call) const {
    auto slot = asio::get_associated_cancellation_slot(handler);
    if (slot.is_connected()) {
      slot.assign([stop = stop_](asio::cancellation_type) { stop->make(); });
    }
    using Kept = HandlerCaller<std::decay_t<Handler>>;
    start_call(executor_, std::move(call),
               std::make_shared<Kept>(std::forward<Handler>(handler), executor_));
  }

 private:
  asio::any_io_executor executor_;
  std::shared_ptr<StopRequest> stop_;
};

}  // namespace sluice::detail
