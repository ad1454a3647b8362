// The order of records that have no common number: several logs that each count for themselves, or
// records with nothing but clocks.
//
// Clocks of two machines cannot be compared (11 s apart is common, microseconds matter), so none are.
// What is known is each lane's own order, and that a cause stands before its effect: F ends upstream
// before it starts downstream, B the other way. Where causes contradict the lanes, nothing is made
// up: the record comes without its cause, and the judge says so. Pure functions; any executor.
#pragma once

#include <vector>

#include <sluice/log_line.hpp>

namespace sluice {

/// A lane's records in its own order: one log's, one rank's or one stage's.
using LogLane = std::vector<LogLine>;

/// All records, causes first, numbered from 1.
std::vector<LogLine> order_by_cause(const std::vector<LogLane>& lanes);

/// Records without seq as lanes: one a rank where records name it, else one a stage; by clock where
/// every record of the lane has one, else as they stand.
std::vector<LogLane> lanes_of(const std::vector<LogLine>& lines);

}  // namespace sluice
