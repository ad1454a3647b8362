// The door: how many microbatches may be inside the pipeline.
//
// Stage 0's credit, and one more whose input waits ready behind it, so that loading overlaps with
// work; and as many as it takes where an order of one's own does not begin with the first. Memory follows
// the credits, never M. Used on the executor of the rank that owns stage 0.
#pragma once

#include <chrono>
#include <new>
#include <utility>

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/messages.hpp>
#include <sluice/plan.hpp>
#include <sluice/rank_core.hpp>
#include <sluice/step_core.hpp>
#include <sluice/turn.hpp>

namespace sluice::detail {

/// How many microbatches must be inside at once for stage 0 to follow the order of `plan`, when they go in
/// one after the other.
int most_inside(const Plan& plan);

class Door {
 public:
  /// `executor` and `turn`: of the rank that owns stage 0.
  Door(StepCore& step, int room, asio::any_io_executor executor, std::chrono::nanoseconds turn)
      : step_(step), room_(room), berth_(std::move(executor), turn) {}

  bool open() const { return room_ > 0 || closed_; }
  bool closed() const { return closed_; }

  /// A microbatch goes in.
  void enter() { --room_; }
  /// A microbatch has left.
  void leave() {
    ++room_;
    wake();
  }
  /// Nobody goes in any more.
  void close() {
    closed_ = true;
    wake();
  }

  /// Sleeps until `open()`. Only when it is not; one sleeper at a time.
  auto opened() {
    return asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [this](Resumer<> sleeper) {
          bed_.sleep(std::move(sleeper));
          step_.rested();
        },
        asio::use_awaitable);
  }

  /// Whether the intake, which has gone on, is still on its executor for sure: in the turn of `rank`,
  /// stage 0's, which has opened the door, or in its own.
  bool at_home(const RankCore& rank) const { return rank.at_home() || berth_.has_its_turn(); }
  /// From whatever executor the batch source has returned on back to that of stage 0's rank.
  auto come_home() { return berth_.take_a_trip(); }

  /// Forgets the sleeper: its executor's context is going.
  void give_up() {
    bed_.forget();
    berth_.forget();
  }

 private:
  void wake() {
    if (!bed_.taken()) return;
    step_.woken();
    try {
      bed_.wake();
    } catch (const std::bad_alloc&) {
      // The intake has ended, and asio had no memory to tell a handler that does nothing.
    }
  }

  StepCore& step_;
  int room_;
  bool closed_ = false;
  Bed bed_;
  Berth berth_;
};

}  // namespace sluice::detail
