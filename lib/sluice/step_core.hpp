// One step: who is still at work, the first error, and how everything ends.
//
// Two counts decide. `tasks`: coroutines that have not ended; at none the step is over. `awake`:
// ranks, intake and new microbatches that are not asleep, wake-ups under way included; since every message is handed
// over by someone awake, none awake means that nothing can ever arrive again: the step is over, or
// it is stuck. That verdict is exact on any executor, at one atomic operation per sleep and wake.
//
// Shared by all ranks of a step; thread-safe unless said otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/crossings.hpp>
#include <sluice/messages.hpp>
#include <sluice/plan.hpp>
#include <sluice/probe.hpp>
#include <sluice/rank_core.hpp>
#include <sluice/slots.hpp>
#include <sluice/step_error.hpp>

namespace sluice::detail {

class StepCore {
 public:
  /// `training`: false without backwards. `clock`: empty when nobody asks what time it was.
  StepCore(std::shared_ptr<const Plan> plan, std::int64_t step, bool training,
           std::function<std::int64_t()> clock, bool keep_events)
      : plan_(std::move(plan)),
        step_(step),
        training_(training),
        clock_(std::move(clock)),
        keep_events_(keep_events),
        slots_(*plan_),
        crossings_(plan_->ranks) {}
  virtual ~StepCore() = default;

  const Plan& plan() const { return *plan_; }
  std::int64_t number() const { return step_; }
  bool training() const { return training_; }
  /// Whether there is a clock to read.
  bool watched() const { return static_cast<bool>(clock_); }
  std::int64_t now_ns() const { return clock_(); }
  bool keeps_events() const { return keep_events_; }
  Slots& slots() { return slots_; }
  Crossings& crossings() { return crossings_; }
  /// `action` has started, so the slot of its input is free: wakes who may wait for it.
  void free_slot(const Action& action, std::int64_t lamport, const Berth* brisk);
  /// For messages to stage 0's rank.
  const asio::any_io_executor& entrance() const;

  // --- who is at work ---

  /// A coroutine of the step will be spawned.
  void task_started() { tasks_.fetch_add(1, std::memory_order_relaxed); }
  /// The last one to end resumes whoever awaits `all_ended`.
  void task_ended();
  /// A rank or the intake starts, or is being woken.
  void woken() { awake_.fetch_add(1, std::memory_order_relaxed); }
  /// The batch source has delivered one more microbatch; it counts as awake until it sleeps.
  void microbatch_entered() {
    entered_.fetch_add(1, std::memory_order_relaxed);
    woken();
  }
  /// A rank or the intake sleeps, or has ended.
  void rested();
  /// A rank has run its last action, or has stopped.
  void rank_ended();

  // --- how it ends ---

  /// Keeps the first error; every rank is asked again, with stopping among its options. Once the end is
  /// decided it is too late, and does nothing.
  ///
  /// Of errors with a `place` the first by place is kept, so that a run and its replay, on whatever
  /// threads, tell the same of several. One from outside has none: it is kept where it came first.
  void fail(StepError error, std::optional<Place> place = std::nullopt);
  /// The runtime itself has failed, or a director has thrown. Never throws: an error for want of memory
  /// was made beforehand.
  void fail(std::exception_ptr cause) noexcept;
  /// With the error that `make` makes, if there is memory to make it.
  template <class Make>
  void fail_as(Make&& make, std::optional<Place> place = std::nullopt) noexcept {
    try {
      fail(make(), place);
    } catch (...) {
      fail(std::current_exception());
    }
  }
  /// Somebody outside wants the step to end.
  void cancel() noexcept;
  /// The context of the executors is going: nothing is told any more.
  bool given_up() const { return given_up_.load(std::memory_order_relaxed); }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }
  /// Nothing can arrive any more and the step is stopping: ranks end without being asked.
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }

  /// Calls `start` and sleeps until every coroutine that it began has ended.
  auto all_ended() {
    return asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [this](Resumer<> waiter) {
          arm(std::move(waiter));
          start();
          task_ended();  // the one that `arm` counted
        },
        asio::use_awaitable);
  }

  /// Calls `work(rank)` for every rank on that rank's executor, sleeps until all have returned, and
  /// resumes on the executor of the awaiting coroutine. `work` must not throw.
  auto on_every_rank(std::function<void(RankCore&)> work) {
    return asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [this](Resumer<> waiter, std::function<void(RankCore&)> todo) {
          work_ = std::move(todo);
          arm(std::move(waiter));
          spread();
          task_ended();
        },
        asio::use_awaitable, std::move(work));
  }

  /// Spawns one of the step's coroutines, which has a Task, on the executor of `rank`. Throws
  /// std::bad_alloc, and then it has not begun.
  static void spawn(RankCore& rank, asio::awaitable<void> coroutine);

  /// Once all have ended: whether the step has succeeded. From here on nothing can make it fail, so that
  /// what was applied is never called cancelled.
  bool decide();
  /// After that: something went wrong that changes nothing any more, and is told.
  void note(StepError error);
  template <class Make>
  void note_as(Make&& make) noexcept {
    try {
      note(make());
    } catch (...) {
      note(no_memory_);
    }
  }
  std::optional<StepError> error() const;

  /// Who waits for what right now, a line a rank. From any thread.
  std::string wait_report() const;
  std::vector<RankPosition> positions() const;
  /// Asks every rank. While the executors' context is there.
  void ask(Probe& probe) const;
  /// Changes whenever an action starts or ends. From any thread.
  std::int64_t progress() const;

 protected:
  /// Before anything starts: the ranks in order. The derived class owns them.
  void set_ranks(std::vector<RankCore*> ranks);
  /// Forgets whoever awaits the end: the context of the executors is going.
  void give_up() {
    given_up_ = true;
    waiter_.forget();
    waiter_home_ = asio::any_io_executor();
  }
  /// Spawns the coroutines of the step.
  virtual void start() = 0;

 private:
  void arm(Resumer<> waiter);
  void spread();
  void quiescent();

  std::shared_ptr<const Plan> plan_;
  std::int64_t step_;
  bool training_;
  std::function<std::int64_t()> clock_;
  bool keep_events_;
  Slots slots_;
  Crossings crossings_;
  std::vector<RankCore*> ranks_;

  std::atomic<int> tasks_{0};
  std::atomic<int> awake_{0};
  std::atomic<int> ranks_running_{0};
  std::atomic<int> entered_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> abandoned_{false};
  std::atomic<bool> given_up_{false};
  mutable std::mutex error_mutex_;
  std::optional<StepError> error_;
  std::optional<Place> place_;  // of the error
  bool decided_ = false;
  const StepError no_memory_{StepError::Kind::runtime_failed,
                             "the runtime failed: no memory, not even to say what for"};
  std::function<void(RankCore&)> work_;  // that every rank does
  Bed waiter_;
  asio::any_io_executor waiter_home_;
};

}  // namespace sluice::detail
