// The deterministic executor: any Asio coroutine code on one thread, in an order that a seed decides.
//
// A context without threads, reactor or clock. What is posted waits in a queue; `run` picks from it,
// first in first out or as a strategy says, and returns when nothing is queued and no timer pends:
// coroutines that are still alive then are stuck. Time is virtual: it stands still while anything can
// run, then jumps to the next timer.
//
// Give pipelines `single_thread(context.get_executor())`: a strand on top would hide the choices. Not
// thread-safe. The context outlives all work posted to it; its destructor drops what is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include <asio/async_result.hpp>
#include <asio/execution.hpp>
#include <asio/execution_context.hpp>
#include <asio/post.hpp>

namespace sluice::replay {

class DeterministicContext : public asio::execution_context {
 public:
  class Executor;
  /// Index below `queued` of what runs next; `queued` >= 1, oldest first.
  using Pick = std::function<std::size_t(std::size_t queued)>;

  /// First in, first out.
  DeterministicContext() = default;
  explicit DeterministicContext(Pick pick) : pick_(std::move(pick)) {}
  ~DeterministicContext();
  DeterministicContext(const DeterministicContext&) = delete;
  DeterministicContext& operator=(const DeterministicContext&) = delete;

  Executor get_executor();

  /// Runs until nothing is queued and no timer pends. Returns how many handlers ran. What a handler
  /// throws leaves `run`, which may be called again.
  std::size_t run();

  /// Virtual nanoseconds since the context was made.
  std::int64_t now_ns() const { return now_ns_; }

  /// Completes with void() after `nanoseconds` of virtual time.
  template <class Token>
  auto async_sleep(std::int64_t nanoseconds, Token&& token) {
    return asio::async_initiate<Token, void()>(
        [this](auto handler, std::int64_t deadline) {
          timers_.emplace(
              std::pair(deadline, timers_made_++),
              make_work([wake = std::move(handler)]() mutable { asio::post(std::move(wake)); }));
        },
        token, now_ns_ + nanoseconds);
  }

 private:
  /// A callable that is moved, called once, and need not be copyable.
  struct Work {
    virtual ~Work() = default;
    virtual void call() = 0;
  };
  template <class F>
  static std::unique_ptr<Work> make_work(F function) {
    struct Holder final : Work {
      explicit Holder(F held) : function(std::move(held)) {}
      void call() override { std::move(function)(); }
      F function;
    };
    return std::make_unique<Holder>(std::move(function));
  }

  void drop_all();

  Pick pick_;
  std::deque<std::unique_ptr<Work>> queue_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::unique_ptr<Work>> timers_;
  std::int64_t timers_made_ = 0;
  std::int64_t now_ns_ = 0;
};

/// A handle; two of the same context are equal. Never runs anything inside `execute`.
class DeterministicContext::Executor {
 public:
  explicit Executor(DeterministicContext& context) : context_(&context) {}

  DeterministicContext& query(asio::execution::context_t) const noexcept { return *context_; }
  static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
    return asio::execution::blocking.never;
  }

  template <class F>
  void execute(F function) const {
    context_->queue_.push_back(make_work(std::move(function)));
  }

  friend bool operator==(const Executor& a, const Executor& b) noexcept {
    return a.context_ == b.context_;
  }
  friend bool operator!=(const Executor& a, const Executor& b) noexcept { return !(a == b); }

 private:
  DeterministicContext* context_;
};

inline DeterministicContext::Executor DeterministicContext::get_executor() {
  return Executor(*this);
}

/// Picks that a seed decides, the same on every platform.
DeterministicContext::Pick seeded_picks(std::uint64_t seed);

}  // namespace sluice::replay
