#include <sluice/replay/planned_order.hpp>

#include <algorithm>

namespace sluice::replay {

PlannedOrder::PlannedOrder(std::vector<Action> actions) : actions_(std::move(actions)) {
  for (std::size_t i = 0; i < actions_.size(); ++i) sorted_.emplace_back(actions_[i], i);
  std::sort(sorted_.begin(), sorted_.end());
}

std::optional<std::size_t> PlannedOrder::position_of(const Action& action) const {
  const auto found =
      std::lower_bound(sorted_.begin(), sorted_.end(), std::pair(action, std::size_t{0}));
  if (found == sorted_.end() || found->first != action) return std::nullopt;
  return found->second;
}

void PlannedCursor::start(const Action& action) {
  const Action* planned = next();
  const auto position =
      planned != nullptr && *planned == action ? next_ : order_->position_of(action);
  if (!position) return;
  started_[*position] = true;
  while (next_ < started_.size() && started_[next_]) ++next_;
}

}  // namespace sluice::replay
