// Events: what really happened, in the words of the log.
//
// Each rank numbers its own events; nothing on the hot path is shared between ranks. `merge_events`
// gives the whole step's order afterwards: Lamport clock, then rank, then local number, an order in
// which every cause stands before its effect.
// Plain values; any executor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sluice/ids.hpp>

namespace sluice {

/// What a rank tells its director, and the log, as it happens.
struct Event {
  enum class Kind : std::uint8_t {
    enter,      ///< an action has started
    exit,       ///< it has ended, and its output is about to leave the rank
    failed,     ///< it has ended with an exception
    stopped,    ///< the rank has seen that the step is to end, and runs nothing more
    committed,  ///< a stage has applied its update
    aborted,    ///< a stage has dropped its gradients
  };

  Kind kind = Kind::enter;
  RankId rank;
  Action action;           ///< of enter, exit and failed; of committed and aborted the stage alone
  std::int64_t step = 0;   ///< counts from 0
  std::int64_t local = 0;  ///< number on this rank in this step, from 0
  std::int64_t lamport = 0;  ///< greater than that of everything that caused it
  std::int64_t time_ns = 0;  ///< of the pipeline's clock; 0 without one
  std::uint64_t hash = 0;    ///< exit: of the output value; committed: of the stage's state
  bool hashed = false;       ///< whether `hash` means anything
};

/// All ranks' events of one step in causal order. Each input is one rank's, by local number.
std::vector<Event> merge_events(std::span<const std::vector<Event>> ranks);

}  // namespace sluice
