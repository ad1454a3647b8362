#include <sluice/plan_track.hpp>

#include <algorithm>
#include <array>

namespace sluice {

PlanTrack::PlanTrack(const Plan& plan)
    : plan_(&plan), adaptive_(plan.order_mode == OrderMode::adaptive), ranks_(plan.order.size()) {
  auto shared = std::make_shared<Shared>();
  shared->falling.resize(static_cast<std::size_t>(plan.stages));
  std::vector<std::array<std::int32_t, 4>> due(static_cast<std::size_t>(plan.stages));
  for (const auto& order : plan.order) {
    Positions& positions = shared->positions.emplace_back();
    positions.reserve(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Action& action = order[i];
      positions.emplace_back(action, i);
      const auto phase = static_cast<std::size_t>(action.phase);
      std::int32_t& next = due[action.stage.index()][phase];
      if (action.mb.value < next) {
        shared->falling[action.stage.index()] |= static_cast<std::uint8_t>(1U << phase);
      }
      next = action.mb.value + 1;
    }
    std::sort(positions.begin(), positions.end());
  }
  shared_ = std::move(shared);
}

std::optional<Action> PlanTrack::due_on(StageId stage) const {
  const std::size_t rank = plan_->rank_of[stage.index()].index();
  const auto& order = plan_->order[rank];
  for (std::size_t i = ranks_[rank].next; i < order.size(); ++i) {
    if (order[i].stage == stage) return order[i];
  }
  return std::nullopt;
}

std::optional<Action> PlanTrack::start_out_of_turn(const Action& action) {
  const std::size_t r = plan_->rank_of[action.stage.index()].index();
  const auto& order = plan_->order[r];
  Rank& rank = ranks_[r];
  const Action due = rank.next < order.size() ? order[rank.next] : action;
  if (rank.early.empty()) {
    rank.early.resize(order.size());
    for (std::size_t i = 0; i < rank.next; ++i) rank.early[i] = true;
  }
  const std::size_t position = position_of(r, action);
  // A backward whole instead of in halves, say: nothing that could be followed.
  if (position == order.size()) return due;
  // Of two that overlap either may be seen to start first.
  const bool beside = position == rank.next + 1 && overlaps(order[rank.next], action);
  const bool owed = position < rank.next;
  const bool in_turn = position == rank.next || beside;
  rank.early[position] = true;
  if (!owed && !beside) rank.next = position + 1;
  while (rank.next < order.size() && rank.early[rank.next]) ++rank.next;
  return owed || in_turn ? std::nullopt : std::optional(due);
}

bool PlanTrack::overlaps(const Action& first, const Action& second) const {
  if (plan_->overlapped.empty()) return false;
  const std::size_t rank = plan_->rank_of[first.stage.index()].index();
  if (plan_->rank_of[second.stage.index()].index() != rank) return false;
  std::size_t a = position_of(rank, first);
  std::size_t b = position_of(rank, second);
  if (a > b) std::swap(a, b);
  const auto& pairs = plan_->overlapped[rank];
  return b == a + 1 && std::binary_search(pairs.begin(), pairs.end(), a);
}

bool PlanTrack::ascending(StageId stage, Phase phase) const {
  return (shared_->falling[stage.index()] >> static_cast<unsigned>(phase) & 1U) == 0;
}

std::int64_t PlanTrack::actions() const {
  std::int64_t count = 0;
  for (const auto& order : plan_->order) count += static_cast<std::int64_t>(order.size());
  return count;
}

std::size_t PlanTrack::position_of(std::size_t rank, const Action& action) const {
  const Positions& positions = shared_->positions[rank];
  const auto found = std::lower_bound(
      positions.begin(), positions.end(), action,
      [](const auto& entry, const Action& wanted) { return entry.first < wanted; });
  const bool there = found != positions.end() && found->first == action;
  return there ? found->second : plan_->order[rank].size();
}

}  // namespace sluice
