#include <sluice/zero_bubble_schedules.hpp>

#include <optional>

#include <sluice/engine.hpp>

namespace sluice::detail {
namespace {

/// What decides in the engine when zb-h2 is laid out: a ready input gradient first, else the next
/// forward, else the oldest weight gradient. At unit costs the first gradient is back after 2(S-s)-1
/// forwards, and from then on there is always something to do.
class H2Decider {
 public:
  H2Decider(int stages, int microbatches) : microbatches_(microbatches), cap_(2 * stages) {
    for (int s = 0; s < stages; ++s) {
      const StageId stage(s);
      stages_.push_back({Action(stage, Phase::forward, MicrobatchId(0)),
                         Action(stage, Phase::input_gradient, MicrobatchId(0)),
                         Action(stage, Phase::weight_gradient, MicrobatchId(0))});
    }
  }

  std::optional<Action> next(RankId rank, const Board& board) const {
    const PerStage& stage = stages_[rank.index()];
    if (can(stage.input, board)) return stage.input;
    const int held = stage.forward.mb.value - stage.weight.mb.value;
    if (held < cap_ && can(stage.forward, board)) return stage.forward;
    if (can(stage.weight, board)) return stage.weight;
    return std::nullopt;
  }

  std::optional<Action> wanted(RankId rank) const { return stages_[rank.index()].forward; }
  std::optional<Action> partner(RankId) const { return std::nullopt; }

  void started(RankId rank, const Action& action) {
    PerStage& stage = stages_[rank.index()];
    Action& next = action.phase == Phase::forward          ? stage.forward
                   : action.phase == Phase::input_gradient ? stage.input
                                                           : stage.weight;
    next.mb = next.mb.next();
  }

  void ended(const Action&) {}

 private:
  struct PerStage {
    Action forward;  // the next of each phase
    Action input;
    Action weight;
  };

  bool can(const Action& action, const Board& board) const {
    return action.mb.value < microbatches_ && board.has_input(action);
  }

  int microbatches_;
  int cap_;
  std::vector<PerStage> stages_;
};

}  // namespace

Schedule zb_h2(int stages, int microbatches) {
  Schedule schedule;
  schedule.rank_of = one_stage_a_rank(stages);
  Costs unit;
  unit.input_gradient = {Time::from_units(1)};
  unit.weight_gradient = {Time::from_units(1)};
  const Costs costs = complete(unit, stages);
  H2Decider decider(stages, microbatches);
  Engine engine(decider, schedule.rank_of, stages, microbatches, costs, {});
  schedule.order = order_of(
      engine.run(3 * static_cast<std::size_t>(stages) * static_cast<std::size_t>(microbatches)));
  return schedule;
}

}  // namespace sluice::detail
