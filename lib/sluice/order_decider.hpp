// OrderDecider: the engine's ranks follow an order. Private to the timelines, and to the property that holds
// the order's fast path (order_sweep.hpp) against it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <sluice/board.hpp>
#include <sluice/ids.hpp>

namespace sluice::detail {

/// Every rank follows its list.
template <class List>
class OrderDecider {
 public:
  OrderDecider(int ranks, List list) : list_(list), done_(static_cast<std::size_t>(ranks), 0) {}

  std::optional<Action> next(RankId rank, const Board& board) const {
    const auto action = wanted(rank);
    if (!action || !board.has_input(*action) || !board.has_slot(*action)) return std::nullopt;
    const auto other = partner(rank);
    if (other && (!board.has_input(*other) || !board.has_slot(*other))) return std::nullopt;
    return action;
  }

  std::optional<Action> wanted(RankId rank) const {
    const std::size_t done = done_[rank.index()];
    if (done == list_.count(rank)) return std::nullopt;
    return list_.at(rank, done);
  }

  std::optional<Action> partner(RankId rank) const {
    const std::size_t done = done_[rank.index()];
    if (!list_.overlaps(rank, done)) return std::nullopt;
    return list_.at(rank, done + 1);
  }

  void started(RankId rank, const Action&) { ++done_[rank.index()]; }
  void ended(const Action&) {}

 private:
  List list_;
  std::vector<std::size_t> done_;
};

}  // namespace sluice::detail
