// Schedules as files, in PyTorch's notation: one row a rank, cells like `0F0`, `2I0`, `2W0`;
// `(0F7;7B3)OVERLAP_F_B` for a pair that overlaps; an empty cell is an idle slot; `0SEND_F3` and
// `1RECV_F3` move values, which is checked and then left to the runtime.
//
// Read strictly, because the format says nothing about itself: no header, no version, no shape, and
// an older notation gives the same letters another meaning. Pure functions on text; files are the
// caller's business.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/schedule.hpp>

namespace sluice {

/// What the reader is told besides the text.
struct ScheduleCsvOptions {
  std::optional<int> stages;        ///< absent: as many as the text has
  std::optional<int> microbatches;  ///< absent: as many as the text has
  /// The older notation: `B` is the input gradient alone, `BW` the whole backward.
  bool legacy = false;
};

struct ReadSchedule {
  Schedule schedule;
  int microbatches = 0;
  /// Every row as it stood there, without blanks round the cells: idle slots and communication, too.
  std::vector<std::vector<std::string>> cells;
};

/// Throws ConfigError with one finding, rule `schedule`, whose message has the row and column (from
/// 1), what was expected and found there, and the row with an arrow at the cell.
ReadSchedule read_schedule_csv(std::string_view text, const ScheduleCsvOptions& options = {});

/// One row a rank, without idle cells, each ending in a newline.
std::string write_schedule_csv(const Schedule& schedule);

/// The text that was read, with newlines as line ends. Legacy stays legacy.
std::string write_schedule_csv(const ReadSchedule& read);

}  // namespace sluice
