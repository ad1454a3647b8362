// The door: how many microbatches may be inside the pipeline.
//
// Stage 0's credit, and one more whose input waits ready behind it, so that loading overlaps with
// work; and as many as it takes where an order of one's own does not begin with the first. Memory follows
// the credits, never M. Used on the executor of the rank that owns stage 0.
#pragma once

#include <new>
#include <utility>

#include <asio/async_result.hpp>
#include <asio/use_awaitable.hpp>

#include <sluice/messages.hpp>
#include <sluice/plan.hpp>
#include <sluice/step_core.hpp>

namespace sluice::detail {

/// How many microbatches must be inside at once for stage 0 to follow the order of `plan`, when they go in
/// one after the other.
int most_inside(const Plan& plan);

class Door {
 public:
  Door(StepCore& step, int room) : step_(step), room_(room) {}

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

  /// Forgets the sleeper: its executor's context is going.
  void give_up() { bed_.forget(); }

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
};

}  // namespace sluice::detail
