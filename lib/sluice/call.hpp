// A call of the embedder's: starts its coroutine, and answers whoever awaits it, exactly once.
//
// Asio would drop a completion handler in silence when it finds no memory to start the coroutine or to
// hand on its result. Here the first is an exception out of the call, and the second ends the process,
// which says so. On the executor of rank 0; the answer comes through the handler's own.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <asio/any_io_executor.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/awaitable.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_type.hpp>
#include <asio/co_spawn.hpp>
#include <asio/dispatch.hpp>
#include <asio/executor_work_guard.hpp>

#include <sluice/messages.hpp>
#include <sluice/step_result.hpp>
#include <sluice/stop_request.hpp>

namespace sluice::detail {

/// Who awaits the call: a completion handler, whose cancellation slot nobody sees.
template <class Handler>
class Caller {
 public:
  /// `executor`: on which the call runs.
  Caller(Handler handler, const asio::any_io_executor& executor)
      : messages_(for_messages(executor)),
        work_(asio::make_work_guard(handler, executor)),
        handler_(std::move(handler)) {}

  bool answered() const { return answered_; }

  static void answer(std::shared_ptr<Caller> caller, std::exception_ptr error,
                     StepResult result) noexcept {
    caller->answered_ = true;
    caller->error_ = std::move(error);
    caller->result_ = std::move(result);
    const asio::any_io_executor messages = std::move(caller->messages_);
    send(messages, [caller = std::move(caller)] { deliver(caller); });
  }

 private:
  static void deliver(const std::shared_ptr<Caller>& caller) {
    try {
      asio::dispatch(asio::bind_executor(caller->work_.get_executor(), [caller] {
        caller->called_ = true;
        caller->work_.reset();
        std::move(caller->handler_)(std::move(caller->error_), std::move(caller->result_));
      }));
    } catch (...) {
      if (!caller->called_) end_without_memory();
      throw;  // what the handler throws is its executor's affair
    }
  }

  asio::any_io_executor messages_;
  decltype(asio::make_work_guard(std::declval<Handler&>(),
                                 std::declval<const asio::any_io_executor&>())) work_;
  Handler handler_;
  std::atomic<bool> answered_{false};
  bool called_ = false;
  std::exception_ptr error_;
  StepResult result_;
};

template <class Handler>
asio::awaitable<void> run_call(asio::awaitable<StepResult> call,
                               std::shared_ptr<Caller<Handler>> caller) {
  std::exception_ptr error;
  StepResult result;
  try {
    result = co_await std::move(call);
  } catch (...) {
    error = std::current_exception();
  }
  Caller<Handler>::answer(std::move(caller), std::move(error), std::move(result));
}

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
    using Kept = std::decay_t<Handler>;
    auto caller = std::make_shared<Caller<Kept>>(std::forward<Handler>(handler), executor_);
    asio::co_spawn(executor_, run_call<Kept>(std::move(call), caller), [](std::exception_ptr) {});
    // Nobody else holds it, and it has not been answered: the coroutine was dropped before it began.
    if (caller.use_count() == 1 && !caller->answered()) throw std::bad_alloc();
  }

 private:
  asio::any_io_executor executor_;
  std::shared_ptr<StopRequest> stop_;
};

}  // namespace sluice::detail
