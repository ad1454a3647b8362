// Tickets and the inbox: where a microbatch and a stage meet.
//
// A microbatch coroutine files a ticket (action, value, whom to wake) with the rank that owns the
// action's stage, and sleeps. The rank takes what has arrived whenever it decides; when it has
// nothing to do it parks. Filing is one atomic transition: either the ticket joins the others in the
// inbox, or it finds the rank parked and its filer, alone, wakes it. There is no moment between "looked"
// and "slept" in which a ticket can be lost.
//
// A ticket lives in its microbatch's coroutine frame; nothing is allocated for a hand-over.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include <sluice/ids.hpp>
#include <sluice/messages.hpp>
#include <sluice/stage.hpp>

namespace sluice::detail {

class Berth;

/// What the ready set and the inbox need to know of a ticket.
struct TicketBase {
  Action action;
  std::int64_t lamport = 0;      ///< of the event that caused it; then of the one it caused
  TicketBase* next = nullptr;    ///< in the inbox
  const Berth* brisk = nullptr;  ///< of the rank that handed it back, if its actions are short
};

/// A microbatch's way through one action. The microbatch fills it in, the rank hands it back. A weight
/// gradient's ticket has no owner: the rank filed it for itself.
template <class Value>
struct Ticket : TicketBase {
  Value value;  ///< in: the action's input
  const Value* target = nullptr;
  std::int64_t samples = 0;
  Reported reported;  ///< by the forwards of this microbatch, stage after stage
  bool first = true;  ///< not filed yet: its microbatch counts as awake until it is
  std::optional<Resumer<std::exception_ptr, Value>> owner;

  /// Wakes the microbatch here and now, inside the rank's turn: all it does is to file its next
  /// ticket. An error ends it.
  void hand_back(std::exception_ptr error, Value result) noexcept {
    if (!owner) return;
    auto resume = std::move(*owner);
    owner.reset();
    try {
      resume(std::move(error), std::move(result));
    } catch (const std::bad_alloc&) {
      // The microbatch has ended, and asio had no memory to tell a handler that does nothing. What the
      // microbatch itself throws ends in the microbatch.
    }
  }
};

/// Many filers, one taker: the loop of the rank that owns the inbox, on its own executor.
class Inbox {
 public:
  enum class Filed : std::uint8_t {
    joined,        ///< the taker is awake and will look
    found_parked,  ///< the caller, and no one else, must wake the taker
    closed,        ///< the taker has gone; the ticket was not taken
  };

  /// From any thread.
  Filed file(TicketBase& ticket) {
    TicketBase* head = head_.load(std::memory_order_relaxed);
    for (;;) {
      if (head == closed()) return Filed::closed;
      ticket.next = is_ticket(head) ? head : nullptr;
      if (swap(head, &ticket)) return head == parked() ? Filed::found_parked : Filed::joined;
    }
  }

  /// From any thread: makes the taker look once more, without giving it anything.
  Filed nudge() {
    TicketBase* head = head_.load(std::memory_order_relaxed);
    for (;;) {
      if (head == closed()) return Filed::closed;
      if (is_ticket(head) || head == nudged()) return Filed::joined;
      if (swap(head, nudged())) return head == parked() ? Filed::found_parked : Filed::joined;
    }
  }

  /// The taker: all tickets filed since the last call, latest first, as a list through `next`.
  TicketBase* take() { return list(head_.exchange(nullptr, std::memory_order_acq_rel)); }

  /// The taker: says that it will sleep. False: something has come, look again.
  bool park() {
    TicketBase* head = nullptr;
    return head_.compare_exchange_strong(head, parked(), std::memory_order_acq_rel,
                                         std::memory_order_relaxed);
  }

  /// The taker: refuses all tickets from now on and returns those already filed, as `take`.
  TicketBase* close() { return list(head_.exchange(closed(), std::memory_order_acq_rel)); }

 private:
  bool swap(TicketBase*& expected, TicketBase* desired) {
    return head_.compare_exchange_weak(expected, desired, std::memory_order_acq_rel,
                                       std::memory_order_relaxed);
  }

  // Three addresses that no ticket has.
  TicketBase* parked() { return &marks_[0]; }
  TicketBase* nudged() { return &marks_[1]; }
  TicketBase* closed() { return &marks_[2]; }
  bool is_ticket(const TicketBase* head) {
    return head != nullptr && head != parked() && head != nudged() && head != closed();
  }
  TicketBase* list(TicketBase* head) { return is_ticket(head) ? head : nullptr; }

  std::array<TicketBase, 3> marks_;
  std::atomic<TicketBase*> head_{nullptr};
};

}  // namespace sluice::detail
