#include <sluice/replay/recorded_plan.hpp>

#include <algorithm>
#include <utility>

namespace sluice::replay {

Order recorded_order(const Recording& recording, std::size_t step) {
  Order order;
  for (RankId rank(0); rank.value < recording.header().ranks; rank = rank.next()) {
    order.push_back(recording.order(rank, step));
  }
  return order;
}

std::optional<Plan> recorded_plan(const Recording& recording, std::size_t step) {
  const RecordingHeader& header = recording.header();
  PlanConfig config;
  config.stages = header.stages;
  Schedule schedule;
  schedule.rank_of.resize(static_cast<std::size_t>(header.stages));
  schedule.order = recorded_order(recording, step);
  for (RankId rank(0); rank.value < header.ranks; rank = rank.next()) {
    const auto& order = schedule.order[rank.index()];
    if (order.empty()) return std::nullopt;
    for (const Action& action : order) {
      schedule.rank_of[action.stage.index()] = rank;
      config.microbatches = std::max(config.microbatches, action.mb.value + 1);
    }
  }
  config.custom = std::move(schedule);
  Plan plan = derive_plan(config);
  plan.slots = header.slots;  // a run of another order than the planned one may do with fewer
  return plan;
}

}  // namespace sluice::replay
