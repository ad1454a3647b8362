// The exhaustive search: every state that a step of a plan can reach, each visited once.
//
// Breadth first, so that the first wrong state found is one that the fewest events lead to. Complete only
// when all that matters is visible: every policy has a fingerprint, and the limit was not reached.
// Runs where it is called, on one thread; asks the policy from there alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/plan.hpp>
#include <sluice/policy.hpp>
#include <sluice/replay/explorer.hpp>

namespace sluice::replay {

struct SearchOptions {
  std::int64_t most_states = 10'000'000;
  /// The gate and the order of microbatches are among the rules, not the credits alone.
  bool by_law = true;
  /// Called now and then with the number of states so far. Empty: never.
  std::function<void(std::int64_t states)> progress;
};

/// A wrong state, and how it comes about.
struct WrongState {
  std::string kind;           ///< `stuck`, or the rule that is broken: `over-credit`
  std::string text;           ///< for a person; of a stuck state the wait graph
  std::vector<RankId> moves;  ///< whose turn it was, from the start
  std::vector<RankId> cycle;  ///< of a stuck state
};

struct SearchResult {
  std::int64_t states = 0;
  double interleavings = 0;  ///< ways through those states from start to end
  bool complete = false;     ///< every state there is has been visited, and told apart exactly
  std::optional<WrongState> wrong;  ///< the search ends at the first
};

SearchResult search_states(const Plan& plan, Policy& policy, const SearchOptions& options = {});

/// The states of a plan as a program for the explorer: each pick is a rank's turn, the first rank that can
/// move if nobody says otherwise. `plan` and `policy` are kept.
Program model_program(std::shared_ptr<const Plan> plan, std::shared_ptr<Policy> policy,
                      bool by_law = true);

/// The deviations that lead a model_program to a wrong state.
std::vector<Deviation> deviations_to(const WrongState& wrong, const Program& model);

}  // namespace sluice::replay
