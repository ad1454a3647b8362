// Edges: who takes what an action puts out, and whose output it takes.
//
// Pure functions of the map from stages to ranks; the virtual-time engine and the runtime's slots both
// ask here. Inside a rank nothing is handed over, so an edge joins two ranks.
#pragma once

#include <optional>
#include <span>

#include <sluice/ids.hpp>

namespace sluice::detail {

/// The stage that takes the output of `action`, on whatever rank; nothing when there is none.
inline std::optional<StageId> target_of(std::span<const RankId> rank_of, const Action& action) {
  if (action.phase == Phase::forward) {
    return action.stage.index() + 1 == rank_of.size() ? std::nullopt
                                                      : std::optional(action.stage.next());
  }
  if (action.phase == Phase::weight_gradient || action.stage.value == 0) return std::nullopt;
  return action.stage.previous();
}

/// The stage on another rank that takes the output of `action`; nothing when there is none.
inline std::optional<StageId> receiver_of(std::span<const RankId> rank_of, const Action& action) {
  const auto to = target_of(rank_of, action);
  if (!to || rank_of[to->index()] == rank_of[action.stage.index()]) return std::nullopt;
  return to;
}

/// The stage on another rank whose output `action` takes; nothing when there is none.
inline std::optional<StageId> sender_of(std::span<const RankId> rank_of, const Action& action) {
  std::optional<StageId> from;
  if (action.phase == Phase::forward && action.stage.value > 0) from = action.stage.previous();
  if ((action.phase == Phase::backward || action.phase == Phase::input_gradient) &&
      action.stage.index() + 1 < rank_of.size()) {
    from = action.stage.next();
  }
  if (from && rank_of[from->index()] == rank_of[action.stage.index()]) return std::nullopt;
  return from;
}

}  // namespace sluice::detail
