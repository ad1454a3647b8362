// A point in a recording: the line of its text log before which a replay stops or hands over.
//
// Everything that stands before the line in the log has happened there, nothing behind it has begun.
// Named by seq, or by step and action. Pure functions of a recording; any executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/replay/recording.hpp>

namespace sluice::replay {

struct ReplayPoint {
  std::int64_t step = 0;
  std::int64_t seq = 0;
  RankId rank;        ///< whose event it is
  Action action;      ///< that starts there, or ends
  bool ends = false;  ///< the line is the exit
};

/// The line `seq`; when `step` is given it must be in that step. Throws std::invalid_argument, saying
/// what there is, when the recording has no such line.
ReplayPoint point_of(const Recording& recording, std::optional<std::int64_t> step,
                     std::int64_t seq);

/// Where `action` starts in `step`. Throws std::invalid_argument.
ReplayPoint point_of(const Recording& recording, std::int64_t step, const Action& action);

/// Per rank, how many of its events stand before the point.
std::vector<std::size_t> events_before(const RecordedStep& step, const ReplayPoint& point);

/// `step 5, stage 1, mb 3, F, seq 1297`.
std::string to_string(const ReplayPoint& point);

/// The error of a step that stops there.
std::string stopped_before(const ReplayPoint& point);

}  // namespace sluice::replay
