// The runs that replay_mutants.py has recorded and replayed, and what is seen of one from outside.
//
// What was seen is what the ranks told their director before a recorder or replayer heard it, errors,
// results and final weights: so whoever judges a replayer does not have to believe it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sluice/director.hpp>
#include <sluice/plan.hpp>
#include <sluice/policy.hpp>

namespace sluice::test {

/// What a run was, seen from outside.
struct Seen {
  std::vector<std::string> events;   // `step rank lamport kind action hash`, step and rank as told
  std::vector<std::string> errors;   // per step; empty: none
  std::vector<std::string> results;  // per step: the loss, and other figures
  std::string weights;
  bool stuck = false;  // nothing was left to run, and the step had not ended
};

/// What a case is run with besides its director.
enum class As : std::uint8_t {
  live,    ///< with what happens from outside: its cancellation
  replay,  ///< without
};

struct Case {
  std::string name;
  PlanConfig config;
  int steps = 2;
  std::uint64_t seed = 1;
  bool tensors = false;                       // the perceptron instead of the toy
  std::string fails;                          // an action that throws in the last step
  std::string cancelled;                      // at this action of the last step, by the caller
  bool waits_for_ever = false;                // every step is stuck
  std::function<int(int step)> microbatches;  // where M differs from step to step
  bool accumulate = false;                    // every second step updates

  /// What a replay of the whole of it says when nothing is wrong.
  std::string verdict() const;
};

std::vector<Case> cases();

/// The policy that decides in a live run.
std::shared_ptr<Policy> policy_of(const Case& of, const Plan& plan);

/// Runs a case on the deterministic executor under `picks`, until its steps are through or `more`, asked
/// before each, says no. A step in which nothing moves ends the process with code 3.
Seen run_case(
    const Case& of, As as, std::shared_ptr<Director> director, std::uint64_t picks,
    const std::function<bool()>& more = [] { return true; });

}  // namespace sluice::test
