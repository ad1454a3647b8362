// PlanTrack: how far each rank has come in the order of a plan.
//
// Made once for a plan and copied for each step. A rank that takes an action out of turn is followed
// from there, and what it left out may come later without being another surprise: one departure is
// reported once. Refers to the plan, which outlives it; a value type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <sluice/plan.hpp>

namespace sluice {

class PlanTrack {
 public:
  explicit PlanTrack(const Plan& plan);

  const Plan& plan() const { return *plan_; }

  /// The next action of `stage` itself.
  std::optional<Action> due_on(StageId stage) const;
  /// The rank of the action's stage starts it, if it is the next in its order, as any is in an
  /// adaptive one.
  bool start_in_turn(const Action& action) {
    if (adaptive_) return true;
    const std::size_t r = plan_->rank_of[action.stage.index()].index();
    const auto& order = plan_->order[r];
    Rank& rank = ranks_[r];
    const bool next = rank.early.empty() && rank.next < order.size() && order[rank.next] == action;
    rank.next += next ? 1 : 0;
    return next;
  }
  /// The same for one that is not the next. Returns the one that was due instead: the action itself
  /// when none was, nothing when all is well.
  std::optional<Action> start_out_of_turn(const Action& action);
  /// Whether the two may run at once on their rank.
  bool overlaps(const Action& first, const Action& second) const;
  /// Whether the stage takes the microbatches of this kind from the first to the last.
  bool ascending(StageId stage, Phase phase) const;

  std::int64_t actions() const;

 private:
  using Positions = std::vector<std::pair<Action, std::size_t>>;  // by action
  struct Rank {
    std::size_t next = 0;
    std::vector<bool> early;  // run before its turn; empty while there was none
  };
  struct Shared {
    std::vector<Positions> positions;   // per rank
    std::vector<std::uint8_t> falling;  // per stage: a bit for each phase that is not ascending
  };

  std::size_t position_of(std::size_t rank, const Action& action) const;

  const Plan* plan_;
  bool adaptive_;
  std::shared_ptr<const Shared> shared_;
  std::vector<Rank> ranks_;
};

}  // namespace sluice
