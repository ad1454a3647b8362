// The check of a schedule that somebody else made: is it a whole step, and can it run at all?
//
// Called on a user's own schedule and on one read from a file; the library's own need it only in
// tests. Pure functions; any executor.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <sluice/ids.hpp>
#include <sluice/schedule.hpp>

namespace sluice {

/// The first thing wrong, and where: the action at `position` of the rank's order, or one past the
/// last when something is missing.
struct ScheduleError {
  RankId rank;
  std::size_t position = 0;
  std::string found;
  std::string expected;
};

/// Every stage is on one rank and every rank has a stage; every (stage, microbatch) has one forward
/// and one backward, whole or in two halves, on its stage's rank, in a possible order; overlapped
/// pairs are a forward and a whole backward; no rank waits for ever. Any `schedule` will do, however
/// wrong. Requires microbatches >= 1.
std::optional<ScheduleError> check_schedule(const Schedule& schedule, int microbatches);

}  // namespace sluice
