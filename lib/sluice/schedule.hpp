// Schedules as pure data: which action comes after which, for every rank.
//
// No clock, no threads, no costs: an Order is what a fixed-order policy follows and what the
// virtual-time engine prices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/ids.hpp>

namespace sluice {

/// Per rank, its actions from first to last.
using Order = std::vector<std::vector<Action>>;

/// An order, and which rank owns which stage.
struct Schedule {
  Order order;
  std::vector<RankId> rank_of;  ///< per stage
  /// Per rank, where in its order a forward and the backward behind it may run as one, each hiding
  /// the other's communication: the positions of the forwards, ascending. A rank that cannot do
  /// that runs them one after the other.
  std::vector<std::vector<std::size_t>> overlapped;
};

/// The placement of one stage a rank.
std::vector<RankId> one_stage_a_rank(int stages);

/// The schedules a user can name.
enum class ScheduleName : std::uint8_t {
  drain,  ///< the law of the drain depth, any W or credit vector
  one_f_one_b,
  gpipe,        ///< fill and drain, ascending backward
  eager_1f1b,   ///< the law with credits 2(S-s)-1
  interleaved,  ///< 1F1B over V stages a rank
  looped_bfs,   ///< fill and drain over V stages a rank, descending backward
  zb_h1,        ///< split backward in the memory of 1F1B
  zb_h2,        ///< split backward, no idle time inside a rank's span
  zb_v,         ///< the same with two stages a rank in a V, in the memory of 1F1B
  dualpipe_v,   ///< forward and backward of different microbatches overlap, in a V
  custom,       ///< the user's own, from a list
};

/// `drain`, `1f1b`, `gpipe`, `eager-1f1b`, `interleaved`, `looped-bfs`, `zb-h1`, `zb-h2`, `zb-v`,
/// `dualpipe-v`; `custom` is written and never read.
std::string_view to_string(ScheduleName name);
std::optional<ScheduleName> parse_schedule_name(std::string_view text);

/// True for the schedules that are a list of actions by themselves; the others are credits for the
/// law, or the static order.
bool is_listed(ScheduleName name);

/// How many stages a rank has when nobody says: 2 for the schedules made for more than one, else 1.
int default_chunks(ScheduleName name);

/// What keeps a listed schedule from existing with this shape, or an empty string. `expected` a
/// reader can act on: "an even number of stages".
std::string shape_error(ScheduleName name, int stages, int microbatches, int chunks);

/// A listed schedule. Requires an empty shape_error.
Schedule listed_schedule(ScheduleName name, int stages, int microbatches, int chunks);

/// The `k`-th of the 2*M actions of `stage` in the static order for W >= S-1: min(M, W-s) forwards,
/// then forward/backward pairs, then the remaining backwards. W = S-1 is 1F1B, W >= M+S-2 is GPipe.
/// Requires drain_depth >= stages - 1 and 0 <= k < 2*M.
Action static_action(StageId stage, int microbatches, int drain_depth, int k);

/// The whole static order, one stage a rank.
Order static_order(int stages, int microbatches, int drain_depth);

/// Per rank, the most (stage, microbatch) pairs it holds at once; each counts `weights` of its
/// stage, or 1 without weights. It depends on the order alone, not on time.
std::vector<std::int64_t> peak_of_ranks(const Order& order,
                                        std::span<const std::int64_t> weights = {});

/// The forwards that stage 0 starts before its first backward, minus 1: the W of any order.
int drain_depth_of(const Order& order, std::span<const RankId> rank_of);

}  // namespace sluice
