// The ready set: a rank's tickets in hand, ordered by (stage, phase, mb), never by arrival.
//
// It is kept in the form in which a director is asked: the runnable actions, then wait, then stop.
// Tickets whose output would find no slot are kept apart until one is free. Used by one rank's loop
// only, on its executor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <sluice/policy.hpp>
#include <sluice/ticket.hpp>

namespace sluice::detail {

class ReadySet {
 public:
  ReadySet() { options_.push_back(Option{Option::Kind::wait, Action()}); }

  /// Throws std::bad_alloc and then has not changed, as all here.
  void insert(TicketBase* ticket) {
    make_room(tickets_);
    make_room(options_);
    const auto runnable = options_.begin() + static_cast<std::ptrdiff_t>(tickets_.size());
    const auto place = std::lower_bound(
        options_.begin(), runnable, ticket->action,
        [](const Option& option, const Action& action) { return option.action < action; });
    tickets_.insert(tickets_.begin() + (place - options_.begin()), ticket);
    options_.insert(place, Option{Option::Kind::run, ticket->action});
  }

  /// Removes and returns the ticket of option `index`, which must be a `run`.
  TicketBase* take(std::size_t index) {
    TicketBase* ticket = tickets_[index];
    tickets_.erase(tickets_.begin() + static_cast<std::ptrdiff_t>(index));
    options_.erase(options_.begin() + static_cast<std::ptrdiff_t>(index));
    return ticket;
  }

  /// Offers those tickets whose action `may_start`, and only those.
  template <class MayStart>
  void offer_only(MayStart&& may_start) {
    for (std::size_t i = tickets_.size(); i-- > 0;) {
      if (may_start(tickets_[i]->action)) continue;
      make_room(held_back_);
      held_back_.push_back(take(i));
    }
    for (std::size_t i = held_back_.size(); i-- > 0;) {
      if (!may_start(held_back_[i]->action)) continue;
      insert(held_back_[i]);
      held_back_.erase(held_back_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  /// From now on stopping is among the options.
  void offer_stop() {
    if (options_.back().kind != Option::Kind::stop) {
      options_.push_back(Option{Option::Kind::stop, Action()});
    }
  }

  std::span<const Option> options() const { return options_; }
  /// In hand, those without a slot included.
  std::size_t size() const { return tickets_.size() + held_back_.size(); }
  template <class Visit>
  void each(Visit visit) const {
    for (TicketBase* ticket : tickets_) visit(ticket);
    for (TicketBase* ticket : held_back_) visit(ticket);
  }
  void clear() {
    tickets_.clear();
    held_back_.clear();
    options_.clear();
    options_.push_back(Option{Option::Kind::wait, Action()});
  }

 private:
  template <class T>
  static void make_room(std::vector<T>& in) {
    if (in.size() == in.capacity()) in.reserve(2 * in.size() + 8);
  }

  std::vector<TicketBase*> tickets_;  // of the options that run something, in their order
  std::vector<TicketBase*> held_back_;
  std::vector<Option> options_;
};

}  // namespace sluice::detail
