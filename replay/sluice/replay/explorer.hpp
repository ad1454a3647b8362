// The explorer: runs the same thing again and again, each time in another order, and keeps the orders in
// which it goes wrong; the minimiser makes of such an order one that a person can read.
//
// What is run is the caller's: a function that is given picks, makes a world on a DeterministicContext,
// runs it and says what came of it. Given the same picks it must do the same; the explorer runs one in
// twenty twice and says so when it does not. One thread, no clock, no output.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/awaitable.hpp>

#include <sluice/replay/deterministic_executor.hpp>
#include <sluice/replay/strategy.hpp>

namespace sluice::replay {

/// What came of one run.
struct Outcome {
  std::string kind;         ///< `stuck`, `livelock`, the caller's own; empty: as it should be
  std::string text;         ///< for a person
  std::uint64_t order = 0;  ///< of what happened; 0: the explorer takes the order of the picks
};

/// One run under these picks, which live longer than the run.
using Program = std::function<Outcome(const DeterministicContext::Pick& pick)>;

/// A run of anything: `build` spawns tasks on the context, which is then run to its end. Tasks that are
/// alive then are `stuck`, more than `most` handlers are a `livelock`, an exception is `failed`; `check`,
/// unless empty, says what else is wrong.
Program program_of(std::function<std::function<std::string()>(DeterministicContext&)> build,
                   std::size_t most = 1'000'000);

/// What happened at the open decisions of a run.
struct Trace {
  std::vector<std::uint32_t> options;  ///< how many there were at each
  std::vector<Deviation> deviations;   ///< where the oldest did not run
  std::vector<std::uint32_t> lanes;    ///< at each: what ran, and
  std::vector<std::uint32_t> oldest;   ///< what would have, by default
  std::uint64_t order = 0;             ///< hash of the tasks in the order in which they ran
  std::int64_t steps = 0;              ///< forced ones included
  std::int64_t tasks = 0;              ///< serial executors, and handlers of none
  std::vector<bool> lanes_seen;        ///< that `tasks` counts

  void clear();
};

/// Runs `run` once as `strategy` says. After 10,000 steps the oldest always runs: from there on every
/// order is fair, and what still does not end is a livelock.
Outcome run_once(const Program& run, Strategy& strategy, Trace& trace);

struct ExploreOptions {
  StrategyName strategy = StrategyName::random;
  std::int64_t runs = 10'000;
  std::uint64_t seed = 1;
  int depth = 2;          ///< pct: d. bounded: the most deviations, b
  int most_failures = 1;  ///< then it ends
  /// Called after each run with how many there have been.
  std::function<void(std::int64_t runs)> progress;
};

struct Failure {
  std::string kind;
  std::string text;
  std::int64_t run = 0;
  std::vector<Deviation> deviations;
  std::optional<Walk> walk;  ///< that made them, when a strategy drew them
};

struct Exploration {
  std::int64_t runs = 0;
  std::int64_t distinct = 0;  ///< different orders
  bool complete = false;      ///< bounded: every order with at most b deviations has been run
  std::int64_t tasks = 0;     ///< the most that any run had
  std::int64_t steps = 0;     ///< the most that any run took
  std::int64_t repeated = 0;  ///< runs that were made twice and compared
  std::vector<Failure> failures;
};

/// Ends at the first failures, or when the runs are through. A run that differs when it is repeated is a
/// failure of the kind `not-deterministic`.
Exploration explore(const Program& run, const ExploreOptions& options);

struct Minimised {
  std::vector<Deviation> deviations;
  std::string kind;
  std::string text;
  int reproduced = 0;     ///< of 10 runs, with the same kind
  std::int64_t runs = 0;  ///< that it took
  std::string flips;      ///< the one decision that makes it pass when it is taken the other way
};

/// The same kind of failure with as few deviations as can be had by leaving some out. Nothing when it
/// does not fail three times out of three to begin with.
std::optional<Minimised> minimise(const Program& run, const Failure& failure);

}  // namespace sluice::replay
