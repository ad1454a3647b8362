// Schedules as pure data: which action comes after which, for every rank.
//
// No clock, no threads, no costs: an Order is what a fixed-order policy follows and what the
// virtual-time engine prices.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <sluice/ids.hpp>

namespace sluice {

/// Per rank, its actions from first to last.
using Order = std::vector<std::vector<Action>>;

/// The schedules a user can name.
enum class ScheduleName : std::uint8_t {
  drain,  ///< the law of the drain depth, any W or credit vector
  one_f_one_b,
  gpipe,       ///< fill and drain, ascending backward
  eager_1f1b,  ///< the law with credits 2(S-s)-1
};

/// `drain`, `1f1b`, `gpipe`, `eager-1f1b`.
std::string_view to_string(ScheduleName name);
std::optional<ScheduleName> parse_schedule_name(std::string_view text);

/// The `k`-th of the 2*M actions of `stage` in the static order for W >= S-1: min(M, W-s) forwards,
/// then forward/backward pairs, then the remaining backwards. W = S-1 is 1F1B, W >= M+S-2 is GPipe.
/// Requires drain_depth >= stages - 1 and 0 <= k < 2*M.
Action static_action(StageId stage, int microbatches, int drain_depth, int k);

/// The whole static order, one stage a rank.
Order static_order(int stages, int microbatches, int drain_depth);

}  // namespace sluice
