#include <sluice/call.hpp>

#include <atomic>
#include <new>
#include <utility>

#include <asio/co_spawn.hpp>

namespace sluice::detail {
namespace {

asio::awaitable<void> run(asio::awaitable<StepResult> call, std::shared_ptr<Caller> caller) {
  std::exception_ptr error;
  StepResult result;
  try {
    result = co_await std::move(call);
  } catch (...) {
    error = std::current_exception();
  }
  Caller::answer(std::move(caller), std::move(error), std::move(result));
}

}  // namespace

void Caller::answer(std::shared_ptr<Caller> caller, std::exception_ptr error,
                    StepResult result) noexcept {
  caller->answered_ = true;
  caller->error_ = std::move(error);
  caller->result_ = std::move(result);
  const asio::any_io_executor messages = std::move(caller->messages_);
  send(messages, [caller = std::move(caller)] { caller->deliver(caller); });
}

void start_call(const asio::any_io_executor& executor, asio::awaitable<StepResult> call,
                std::shared_ptr<Caller> caller) {
  asio::co_spawn(executor, run(std::move(call), caller), [](std::exception_ptr) {});
  // Nobody else holds it, and it has not been answered: the coroutine was dropped before it began. (The
  // count is read relaxed: what whoever let go of it has written is seen behind the fence.)
  const bool alone = caller.use_count() == 1;
  std::atomic_thread_fence(std::memory_order_acquire);
  if (alone && !caller->answered()) throw std::bad_alloc();
}

}  // namespace sluice::detail
