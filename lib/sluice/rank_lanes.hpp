// RankLanes: what each rank of a log is running, to see that it does one thing at a time.
//
// StepJudge places stages on ranks as it learns of them; a stage whose rank is not known is a lane of
// its own. A value type.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <sluice/progress.hpp>

namespace sluice::detail {

class RankLanes {
 public:
  struct Running {
    StageId stage;
    MicrobatchId mb;
    Kind kind = forward;
    bool there = false;
  };
  /// One action, or two that may overlap.
  using Lane = std::array<Running, 2>;

  void resize(std::size_t stages) {
    while (lane_of_stage_.size() < stages) {
      lane_of_stage_.push_back(lanes_.size());
      lanes_.emplace_back();
    }
  }
  /// The stage, which must be there, runs on `rank`, with the others that do.
  void place(StageId stage, RankId rank) {
    if (rank.index() >= lane_of_rank_.size()) lane_of_rank_.resize(rank.index() + 1, nowhere);
    std::size_t& lane = lane_of_rank_[rank.index()];
    if (lane == nowhere) lane = lane_of_stage_[stage.index()];
    lane_of_stage_[stage.index()] = lane;
  }

  Lane& of(StageId stage) { return lanes_[lane_of_stage_[stage.index()]]; }

  static void start(Lane& lane, const Action& action) {
    Running& free = lane[lane[0].there ? 1 : 0];
    // Field by field: a temporary would be read back before it has reached the cache.
    free.stage = action.stage;
    free.mb = action.mb;
    free.kind = kind_of(action.phase);
    free.there = true;
  }
  static void end(Lane& lane, const Action& action) {
    for (Running& running : lane) {
      const bool same = running.stage == action.stage && running.mb == action.mb &&
                        running.kind == kind_of(action.phase);
      if (same) running.there = false;
    }
  }

 private:
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

  std::vector<Lane> lanes_;
  std::vector<std::size_t> lane_of_stage_;
  std::vector<std::size_t> lane_of_rank_;
};

}  // namespace sluice::detail
