// The text picture: rows are stages, columns are time, a cell is only the microbatch number.
//
//     stage 0 |0 1 ........[0 ][1 ]        a forward is plain, a backward in brackets (so is the
//     stage 1 |..0 [0 ]1 [1 ]......        input gradient of a split one; the weight gradient is in
//                                          parentheses), idle time is dots
//
// The same function draws a derived timeline and a measured one, so that one can stand under the
// other in the same columns. A microbatch's own life is written, not drawn: `F0 F1 B1 B0`, where
// the numbers are stages. Pure functions; any executor.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <sluice/ids.hpp>
#include <sluice/time.hpp>
#include <sluice/timeline.hpp>

namespace sluice {

/// The first `span` of a timeline on `columns` columns.
struct Scale {
  Time span;
  int columns = 0;
};

/// Finds the scale at which the numbers can be read and a line, label included, takes at most
/// `columns`. When the whole timeline does not fit, its head does. Requires columns >= 20.
Scale fit(std::span<const TimedAction> actions, int stages, int columns = 100);

/// The scale that gives `measured` the columns that `scale` gives `derived`, whatever their units.
Scale same_columns(const Scale& scale, const Timeline& derived, const Timeline& measured);

/// One line a stage, each ending in a newline; then a line for each thing that is not shown. Of more than
/// 64 stages those in the middle are left out.
std::string draw(std::span<const TimedAction> actions, int stages, const Scale& scale);

/// An action as it was measured, in nanoseconds since the step began. A unit is a millisecond.
TimedAction measured_action(const Action& action, RankId rank, std::int64_t enter_ns,
                            std::int64_t exit_ns);

/// What `mb` did, by start: `F0 F1 F2 F3 B3 B2 B1 B0`.
std::string life_of(std::span<const TimedAction> actions, MicrobatchId mb);

}  // namespace sluice
