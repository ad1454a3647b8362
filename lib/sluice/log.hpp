// The text log: one event a line, `seq=0001 mb=0 stage=0 phase=F event=enter`.
//
// Written for a plan (what should happen) and for a run (what did); `seq` starts at 1, is global,
// gap-free, and follows causes: an action's enter comes after the exit of what it waited for. Pure
// functions; any executor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/timeline.hpp>

namespace sluice {

struct LogRecord {
  enum class Event : std::uint8_t { enter, exit };

  std::int64_t seq = 0;
  Action action;
  Event event = Event::enter;
  std::optional<std::int64_t> step;  ///< required when a log spans steps
  std::optional<RankId> rank;
  std::optional<std::int64_t> t_ns;

  friend bool operator==(const LogRecord&, const LogRecord&) = default;
};

/// The record's line, without a newline. `seq` has at least four digits; ` step= rank= t=` follow
/// in this order when they are there.
std::string to_line(const LogRecord& record);

/// Enter and exit of every action of `timeline` in virtual time: 4*S*M records with a backward in
/// one piece. At one moment exits come before the enters that they allow.
std::vector<LogRecord> expected_log(const Timeline& timeline);

}  // namespace sluice
