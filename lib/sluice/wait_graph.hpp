// The wait graph: who waits for what, and who holds it.
//
// Drawn from the plan, each rank's position and what is under way, so that it can be asked for at any
// moment: when a step is stuck, when it exceeds its deadline, or when a watchdog sees no progress. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/plan.hpp>

namespace sluice {

/// How far a rank has come in its step.
struct RankPosition {
  RankId rank;
  std::int64_t started = 0;   ///< actions
  std::int64_t forwards = 0;  ///< of those, forwards
  bool running = false;       ///< inside an action, a suspended stage function included
  bool ended = false;         ///< has run its last action, or has stopped
  Action last;                ///< the running action, or the last one that ended
};

/// An output that has left its rank and not arrived.
struct Crossing {
  Action action;  ///< that takes it
  bool lost = false;
};

/// One rank that cannot go on.
struct RankWait {
  RankId rank;
  Action wants;
  /// What must end first; absent: the batch source's next microbatch, or nothing at all, see `why`.
  std::optional<Action> until;
  std::optional<RankId> holder;  ///< who would run `until`
  std::string why;
};

struct WaitGraph {
  std::vector<RankWait> waits;  ///< by rank; several for a rank that would take either of two
  std::vector<RankId> cycle;    ///< each waits for the next, the last for the first; may be empty
  std::vector<RankPosition> positions;
};

/// `positions`: one for each rank of `plan`, in order. `entered`: how many microbatches the batch source
/// has delivered.
WaitGraph wait_graph(const Plan& plan, std::span<const RankPosition> positions, int entered,
                     std::span<const Crossing> crossings = {});

/// The graph for a person: the cycle first, then a line a rank.
std::string to_string(const WaitGraph& graph);

}  // namespace sluice
