// Exploring a pipeline: what `sluice explore` calls, and what a test of one's own policy calls.
//
//     PipelineExploreOptions options;
//     options.strategy = Exploring::exhaustive;
//     const auto result = explore_pipeline(scenario, options, std::make_shared<MyPolicy>());
//     EXPECT_EQ(result.failures, {}) << result.failures.front().text;
//
// Exhaustive goes through the states of the plan and can be complete; the other strategies run the real
// runtime. Every failure comes with a token that repeats it, made as small as can be: fewer deviations,
// fewer faults, fewer stages and microbatches. One thread; no output.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/policy.hpp>
#include <sluice/replay/explorer.hpp>
#include <sluice/replay/pipeline_program.hpp>
#include <sluice/replay/token.hpp>

namespace sluice::replay {

enum class Exploring : std::uint8_t { exhaustive, bounded, pct, random, swarm };

/// `exhaustive`, `bounded`, `pct`, `random`, `swarm`.
std::string_view to_string(Exploring strategy);
std::optional<Exploring> parse_exploring(std::string_view name);

struct PipelineExploreOptions {
  Exploring strategy = Exploring::random;
  std::int64_t runs = 10'000;
  std::uint64_t seed = 1;
  int depth = 2;                   ///< pct: d. bounded: the most deviations
  std::vector<Fault::Kind> kinds;  ///< each strikes in a share of the runs; not with exhaustive
  std::int64_t most_states = 10'000'000;  ///< or as many as fit in two gigabytes
  /// Called with every scenario before its runs: with faults and in a swarm there are many.
  std::function<void(const Scenario&)> drawn;
  /// Called now and then with the runs, or the states, so far.
  std::function<void(std::int64_t done)> progress;
};

struct PipelineFailure {
  std::string kind;
  std::string text;           ///< of the minimal run; of a stuck one the wait graph
  Token token;                ///< of the minimal run
  Token original;             ///< as it was met
  std::int64_t met_with = 0;  ///< deviations, then
  int reproduced = 0;         ///< of 10 runs of the minimal one
  std::string flips;          ///< the one decision that makes it pass when taken the other way
  int others_finish =
      0;  ///< of 100 other orders of the minimal scenario: a race; none: the configuration
};

struct PipelineExploration {
  std::int64_t runs = 0;
  std::int64_t distinct = 0;  ///< orders of events; with exhaustive: states
  std::int64_t states = 0;    ///< exhaustive alone
  double interleavings = 0;   ///< exhaustive alone: orders that those states stand for
  bool complete = false;
  std::int64_t scenarios = 0;  ///< with faults or swarm more than one
  std::int64_t tasks = 0;      ///< the most of any run
  std::int64_t steps = 0;
  std::int64_t repeated = 0;  ///< runs that were made twice and compared
  Coverage coverage;
  std::vector<PipelineFailure> failures;  ///< the first; then it ends
};

/// `policy`: null for the plan's own. Throws ConfigError when there is no plan of the scenario, and
/// std::invalid_argument for options that do not go together, and for a shape whose runs could not be
/// judged in a gigabyte of memory.
PipelineExploration explore_pipeline(const Scenario& scenario,
                                     const PipelineExploreOptions& options,
                                     const std::shared_ptr<Policy>& policy = nullptr);

/// Runs the order of a token once more. `policy`: as when it was found. Throws as explore_pipeline.
Outcome replay_token(const Token& token, const std::shared_ptr<Policy>& policy = nullptr,
                     const WrapDirector& wrap = {});

}  // namespace sluice::replay
