// Turns: how ranks share a thread.
//
// A trip through an executor's queue costs as much as an action that does nothing, and to wake another
// thread costs several times that. So a rank that has been woken goes on while it has work, for the length
// of a turn (Turns). And while its actions are short, those whom it wakes do not wake a
// thread each: they queue up behind it and have its thread next, without another trip where they are on
// the same executor. A rank whose actions take longer sends whom it wakes on their way at once, for
// another thread to take.
#pragma once

#include <chrono>
#include <utility>

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/executors.hpp>
#include <sluice/messages.hpp>

namespace sluice::detail {

/// How long the actions of a rank take, as far as its turns ask. Outlives steps; used by the rank's loop.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Pace(const Turns& turns) : turns_(turns) {}

  std::chrono::nanoseconds turn() const { return turns_.length; }
  void begin_turn();
  void action_ended();
  /// What `action_ended` learns.
  void action_took(Clock::duration time);
  bool turn_has_ended() const { return turns_.length.count() == 0 || looked_ >= turn_ends_; }
  /// The rank's actions are short: the last ones were, but for one or two.
  bool brisk() const { return score_ >= enough; }

 private:
  static constexpr int enough = 32;

  Turns turns_;
  Clock::time_point turn_ends_;
  Clock::time_point looked_;
  int score_ = 0;  // up with short actions, down, much faster, with longer ones
};

/// Where a rank sleeps until it is called.
class Berth {
 public:
  Berth(asio::any_io_executor executor, std::chrono::nanoseconds turn);

  const asio::any_io_executor& executor() const { return executor_; }
  /// The same, for `send`.
  const asio::any_io_executor& messages() const { return messages_; }

  void sleep(Resumer<> sleeper) { bed_.sleep(std::move(sleeper)); }
  /// Wakes the sleeper on its executor: at once; or, when it is called in the turn of `brisk`, a rank with
  /// short actions, after that and on its thread. Once, from any thread; the berth outlives the message.
  void call(const Berth* brisk = nullptr) noexcept;
  /// Sleeps and is called: back to the executor of the berth from any other, and there behind what waits.
  auto take_a_trip(const Berth* brisk = nullptr) {
    return asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [this, brisk](Resumer<> traveller) {
          sleep(std::move(traveller));
          call(brisk);
        },
        asio::use_awaitable);
  }
  /// Whether the sleeper still has the turn for which it was woken: nothing that it awaited since then has
  /// suspended, so this is its executor.
  bool has_its_turn() const;
  /// Drops the sleeper and the executor, whose context is going.
  void forget() noexcept;

 private:
  friend class Turn;

  /// Sends for the turn of this sleeper and of those behind it.
  void depart(const asio::any_io_executor& messages) noexcept;

  asio::any_io_executor executor_;
  asio::any_io_executor messages_;
  asio::any_io_executor continuations_;  // messages that need not wake another thread
  std::chrono::nanoseconds turn_;
  Bed bed_;
  Berth* behind_ = nullptr;  // has been called, and has the thread next
};

}  // namespace sluice::detail
