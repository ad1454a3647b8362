// The timeline: when every action starts and ends in virtual time, and what follows from it.
//
// Two ways in: `simulate_law` lets the law decide (and so also yields an order), `simulate_order`
// prices a given order. In virtual time all ends and arrivals at t are applied before any stage
// decides at t. Pure functions; any executor.
#pragma once

#include <span>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/schedule.hpp>
#include <sluice/time.hpp>

namespace sluice {

/// What an action costs, in the user's own unit. A vector with one element stands for every stage
/// (or edge); an empty one for its default.
struct Costs {
  std::vector<Time> forward;   ///< per stage; default 1
  std::vector<Time> backward;  ///< per stage; default 1
  std::vector<Time> link;      ///< per edge s -> s+1, both directions; default 0
  Time overhead;               ///< added to every action; default 0
};

/// One action with its place in time.
struct TimedAction {
  Action action;
  RankId rank;
  Time start;
  Time end;
};

struct Timeline {
  std::vector<TimedAction> actions;  ///< by start, then rank
  Time makespan;                     ///< first start to last end
  Time work;                         ///< summed over all actions
  std::vector<int> peak_held;        ///< per stage
};

}  // namespace sluice
