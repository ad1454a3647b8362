// Messages: how one coroutine of a step wakes another, on whatever thread that one runs.
//
// A message that is lost would leave its step asleep for ever, and an executor that has run out of
// memory in the middle of taking one cannot be asked again. So there is no failure to handle: without
// memory for a message the process says so and ends. What waits stays where it is; the message is a
// pointer to it.
#pragma once

#include <optional>
#include <utility>

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/execution.hpp>
#include <asio/use_awaitable.hpp>

namespace sluice::detail {

/// What asio hands to an operation that a coroutine awaits: calling it resumes the coroutine where
/// it is called.
template <class... Results>
using Resumer =
    typename asio::async_result<asio::use_awaitable_t<>, void(Results...)>::handler_type;

/// Says why, and ends the process.
[[noreturn]] void end_without_memory() noexcept;

/// `executor`, such that `send` to it never runs a message in place.
inline asio::any_io_executor for_messages(const asio::any_io_executor& executor) {
  return asio::require(executor, asio::execution::blocking.never);
}

/// Runs `message` on `executor`, which is one `for_messages`, later.
template <class Message>
void send(const asio::any_io_executor& executor, Message message) noexcept {
  try {
    executor.execute(std::move(message));
  } catch (...) {  // an executor throws for want of memory only
    end_without_memory();
  }
}

/// Where a coroutine sleeps until it is called.
class Bed {
 public:
  void sleep(Resumer<> sleeper) { sleeper_.emplace(std::move(sleeper)); }
  bool taken() const { return sleeper_.has_value(); }
  /// Wakes the sleeper here and now. On its own executor.
  void wake() {
    auto sleeper = std::move(*sleeper_);
    sleeper_.reset();
    sleeper();
  }
  /// Wakes the sleeper through `executor`, which is its own. Once; the bed outlives the message.
  void call(const asio::any_io_executor& executor) noexcept {
    send(executor, [this] { wake(); });
  }
  /// Drops the sleeper: its executor's context is going.
  void forget() { sleeper_.reset(); }

 private:
  std::optional<Resumer<>> sleeper_;
};

}  // namespace sluice::detail
