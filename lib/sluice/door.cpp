#include <sluice/door.hpp>

#include <algorithm>

namespace sluice::detail {

int most_inside(const Plan& plan) {
  const auto& order = plan.order[plan.rank_of.front().index()];
  // Without backwards a microbatch leaves by itself.
  const bool holds = std::any_of(order.begin(), order.end(),
                                 [](const Action& action) { return releases(action.phase); });
  int entered = 0;
  int left = 0;
  int most = 0;
  for (const Action& action : order) {
    if (action.stage != StageId(0)) continue;
    if (action.phase == Phase::forward) {
      entered = std::max(entered, action.mb.value + 1);
      most = std::max(most, entered - left);
    }
    if (releases(action.phase) || !holds) ++left;
  }
  return most;
}

}  // namespace sluice::detail
