// The causal order of recorded events, from nothing but each rank's sequence.
//
// A rank's events follow one another, and an action follows the action whose output it takes. Where slots
// are limited it also follows the action that took a value away and so made room for its own output. That
// is all the runtime's Lamport clocks know, so they need not be recorded. Pure functions; any executor.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <sluice/event.hpp>
#include <sluice/ids.hpp>

namespace sluice::replay {

/// Sets `lamport` of every event of a step, as the run had it; `ranks` holds each rank's events in
/// its order, `rank_of` the rank of each stage, `slots` how many values wait on an edge at most. Returns
/// for each rank how many of its first events have all their causes among the events given: all of them
/// in any order that could have happened.
std::vector<std::size_t> order_causally(std::vector<std::vector<Event>>& ranks,
                                        std::span<const RankId> rank_of,
                                        std::optional<int> slots = std::nullopt);

/// Whether the event is a line of the text log, and so has a `seq`.
constexpr bool is_logged(const Event& event) {
  return event.kind == Event::Kind::enter || event.kind == Event::Kind::exit;
}

}  // namespace sluice::replay
