// Unfinished: what stands open where the log of a step stops, and where to look first.
//
// Made by StepJudge when nothing more comes. A value type and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sluice/progress.hpp>

namespace sluice {

struct Unfinished {
  std::vector<std::string> open;     ///< `stage 1: 1B2 exit`, by stage: entered and not left
  std::vector<std::string> waiting;  ///< `stage 3: 3F3`, by stage: its input is there
  std::optional<StageId> behind;     ///< where most inputs lie waiting
  std::int64_t held = 0;             ///< (stage, microbatch) pairs begun and not finished
  /// Everything has gone forward, nothing runs, and the last stage sits on microbatches.
  bool gate_shut = false;
};

/// The microbatch that is due on each stage, per kind of action.
using DueOnStages = std::vector<std::array<std::int32_t, 3>>;

Unfinished unfinished_of(const detail::Progress& progress, const DueOnStages& due,
                         int microbatches);

/// `the end; missing stage 1: 1B2 exit; waiting stage 3: 3F3; stage 3 is behind`.
std::string to_string(const Unfinished& unfinished);

}  // namespace sluice
