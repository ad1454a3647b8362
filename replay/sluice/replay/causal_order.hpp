// The causal order of recorded events, from nothing but each rank's sequence.
//
// A rank's events follow one another, and an action follows the action whose output it takes. That is
// all the runtime's Lamport clocks know, so they need not be recorded. Pure functions; any executor.
#pragma once

#include <cstddef>
#include <vector>

#include <sluice/event.hpp>

namespace sluice::replay {

/// Sets `lamport` of every event of a step, as the run had it; `ranks` holds each rank's events in
/// its order. Returns for each rank how many of its first events have all their causes among the
/// events given: all of them in any order that could have happened.
std::vector<std::size_t> order_causally(std::vector<std::vector<Event>>& ranks, int stages);

/// Whether the event is a line of the text log, and so has a `seq`.
constexpr bool is_logged(const Event& event) {
  return event.kind == Event::Kind::enter || event.kind == Event::Kind::exit;
}

}  // namespace sluice::replay
