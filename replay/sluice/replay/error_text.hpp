// What a step's error text says to a replay. The recording holds the text alone.
//
// Pure functions; any executor.
#pragma once

#include <cstddef>
#include <string_view>

#include <sluice/ids.hpp>

namespace sluice::replay {

inline constexpr std::size_t most_recorded_error = 2048;  // bytes: a record has to fit on a page

/// As much of the text as a record holds, cut between two characters.
std::string_view recorded_part(std::string_view error);

/// The step was stuck.
bool is_stuck(std::string_view error);

/// The error came from outside, or from a director: running the same actions does not bring it about.
bool is_from_outside(std::string_view error);

/// The error is that this action failed.
bool names(std::string_view error, const Action& action);

}  // namespace sluice::replay
