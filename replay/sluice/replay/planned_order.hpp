// A rank's planned order, and how far a step has come in it: what makes "the next k as planned" one
// record.
//
// Writer and reader both walk one, so that they agree on what "next" is after a deviation. A
// PlannedOrder is immutable and shared; a PlannedCursor is used by one rank's executor, one step.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <sluice/ids.hpp>

namespace sluice::replay {

class PlannedOrder {
 public:
  explicit PlannedOrder(std::vector<Action> actions);

  const std::vector<Action>& actions() const { return actions_; }
  std::optional<std::size_t> position_of(const Action& action) const;

 private:
  std::vector<Action> actions_;
  std::vector<std::pair<Action, std::size_t>> sorted_;
};

class PlannedCursor {
 public:
  /// `order` outlives the cursor.
  explicit PlannedCursor(const PlannedOrder& order)
      : order_(&order), started_(order.actions().size(), false) {}

  /// The first action of the order that has not started; null when all have.
  const Action* next() const {
    return next_ < started_.size() ? &order_->actions()[next_] : nullptr;
  }

  /// The rank has started `action`. One that is not in the order, or has started before, changes
  /// nothing: what comes next as planned is still to come.
  void start(const Action& action);

 private:
  const PlannedOrder* order_;
  std::vector<bool> started_;
  std::size_t next_ = 0;
};

}  // namespace sluice::replay
