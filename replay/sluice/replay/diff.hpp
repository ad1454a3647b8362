// Where two recordings part: first in what was done, and first in what came out.
//
// Two runs of an adaptive order may do the same work in different orders; their tensors must be equal
// all the same. So outputs are compared by action, not by position. Pure functions; any executor.
#pragma once

#include <cstdint>
#include <optional>

#include <sluice/replay/divergence.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/replayer.hpp>

namespace sluice::replay {

struct RecordingDiff {
  /// same, diverged, or recording-ends: the same as far as both go, but one ends early.
  Verdict verdict = Verdict::same;
  /// The first difference in actions, failures or counts.
  std::optional<Divergence> actions;
  /// The first difference in outputs or states.
  std::optional<Divergence> tensors;
  std::int64_t events = 0;      ///< compared and equal
  std::int64_t of_actions = 0;  ///< of these, starts of actions
  std::int64_t hashes = 0;  ///< compared and equal; with none, `same` is said of the schedule alone
};

/// `recorded` is the one whose positions are named. They must have as many stages and ranks, else throws
/// std::invalid_argument.
RecordingDiff diff(const Recording& recorded, const Recording& found);

}  // namespace sluice::replay
