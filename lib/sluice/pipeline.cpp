#include <sluice/pipeline.hpp>

namespace sluice {

Plan forward_only(const Plan& plan) {
  Plan forwards = plan;
  forwards.order_mode = OrderMode::fixed;
  for (auto& actions : forwards.order) {
    std::erase_if(actions, [](const Action& action) { return action.phase != Phase::forward; });
  }
  return forwards;
}

}  // namespace sluice
