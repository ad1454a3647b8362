// The engine's board: which values have arrived where, and which slots are taken.
//
// One byte for each (stage, microbatch), one counter for each edge and direction. It knows who sends
// to whom, nothing of time. Private to the engine, which owns it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include <sluice/edges.hpp>
#include <sluice/ids.hpp>

namespace sluice::detail {

/// Which values have arrived where, and which slots are taken.
class Board {
 public:
  Board(std::span<const RankId> rank_of, int microbatches, std::optional<int> slots)
      : rank_of_(rank_of),
        microbatches_(microbatches),
        // All rows move through memory in step, so a row length that is a power of two would put
        // them all into the same few cache sets.
        row_((static_cast<std::size_t>(microbatches) + 63) / 64 * 64 + 64),
        cells_(rank_of.size() * row_, 0),
        taken_(slots ? 2 * rank_of.size() : 0, 0),
        slots_(slots.value_or(std::numeric_limits<int>::max())) {
    std::fill_n(cells_.begin(), static_cast<std::size_t>(microbatches), input_here);
  }

  int stages() const { return static_cast<int>(rank_of_.size()); }
  int microbatches() const { return microbatches_; }
  RankId rank_of(StageId stage) const { return rank_of_[stage.index()]; }
  bool is_last(StageId stage) const { return stage.value + 1 == stages(); }
  bool limited() const { return !taken_.empty(); }
  bool rendezvous() const { return slots_ == 0; }

  /// True when what `action` needs is here.
  bool has_input(const Action& action) const {
    const std::uint8_t here = cell(action.stage, action.mb);
    switch (action.phase) {
      case Phase::forward: return (here & input_here) != 0;
      case Phase::weight_gradient: return (here & input_gradient_done) != 0;
      default: return (here & gradient_here) != 0;
    }
  }

  /// True when the output of `action` would find a slot.
  bool has_slot(const Action& action) const {
    return !limited() || rendezvous() || !receiver(action) || slot(action) < slots_;
  }

  std::optional<StageId> receiver(const Action& action) const {
    return receiver_of(rank_of_, action);
  }
  std::optional<StageId> target(const Action& action) const { return target_of(rank_of_, action); }
  std::optional<StageId> sender(const Action& action) const { return sender_of(rank_of_, action); }

  void input_arrived(StageId stage, MicrobatchId mb) { cell(stage, mb) |= input_here; }
  void gradient_arrived(StageId stage, MicrobatchId mb) { cell(stage, mb) |= gradient_here; }
  void input_gradient_ended(StageId stage, MicrobatchId mb) {
    cell(stage, mb) |= input_gradient_done;
  }

  /// `action` starts: its output takes a slot, its input frees one. Only with limited slots.
  void move_slots(const Action& action) {
    cell(action.stage, action.mb) |= started_bit(action.phase);
    if (receiver(action)) ++slot(action);
    if (const auto from = sender(action)) --slot(Action(*from, action.phase, action.mb));
  }

  /// True when the receiver of `action` has started on its output. Only with limited slots.
  bool taken(const Action& action) const {
    return (cell(*receiver(action), action.mb) & started_bit(action.phase)) != 0;
  }

  /// The action that will free the slot which `action` waits for: the receiving end of the lowest
  /// microbatch that has been sent and not yet taken.
  Action next_taker(const Action& action) const {
    const auto to = receiver(action).value_or(action.stage);
    const std::uint8_t started = started_bit(action.phase);
    for (MicrobatchId mb(0); mb.value < microbatches_; mb = mb.next()) {
      if ((cell(action.stage, mb) & ~cell(to, mb) & started) != 0) {
        return Action(to, action.phase, mb);
      }
    }
    return Action(to, action.phase, action.mb);
  }

 private:
  static constexpr std::uint8_t input_here = 1;
  static constexpr std::uint8_t gradient_here = 2;
  static constexpr std::uint8_t input_gradient_done = 4;
  static constexpr std::uint8_t forward_started = 8;    // with limited slots only
  static constexpr std::uint8_t backward_started = 16;  // with limited slots only

  static std::uint8_t started_bit(Phase phase) {
    return phase == Phase::forward ? forward_started : backward_started;
  }

  std::uint8_t& cell(StageId stage, MicrobatchId mb) {
    return cells_[stage.index() * row_ + mb.index()];
  }
  const std::uint8_t& cell(StageId stage, MicrobatchId mb) const {
    return cells_[stage.index() * row_ + mb.index()];
  }
  std::size_t slot_index(const Action& action) const {
    return 2 * action.stage.index() + (action.phase == Phase::forward ? 0 : 1);
  }
  int& slot(const Action& action) { return taken_[slot_index(action)]; }
  const int& slot(const Action& action) const { return taken_[slot_index(action)]; }

  std::span<const RankId> rank_of_;
  int microbatches_;
  std::size_t row_;
  std::vector<std::uint8_t> cells_;  // by stage, then microbatch
  std::vector<int> taken_;           // by sending stage and direction
  int slots_;
};

}  // namespace sluice::detail
