// What sluice explore explores: a scenario, and who decides in it.
//
// Read from the configuration and the options; used by the command on its one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/policy.hpp>
#include <sluice/replay/pipeline_explorer.hpp>

#include "policy_child.hpp"
#include "shape_options.hpp"

namespace sluice::tools {

struct ExploreCommandOptions {
  explicit ExploreCommandOptions(CLI::App& command) : shape(command) {}

  std::optional<std::filesystem::path> config;
  ShapeOptions shape;
  std::string strategy = "random";
  std::int64_t runs = 10'000;
  std::uint64_t seed = 1;
  int depth = 2;
  std::vector<std::string> faults;
  std::optional<std::filesystem::path> record;
  bool suspend = false;
  std::optional<std::string> token;
  bool json = false;
};

/// A policy of the user's own, live, that remembers what was wrong with it: a child that has died is no
/// order that fails.
class LivePolicy final : public Policy {
 public:
  explicit LivePolicy(const std::string& command) : child_(command) {}

  std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override;
  const std::string& error() const { return error_; }

 private:
  class OfRank;

  PolicyChild child_;
  std::string error_;
};

/// What is explored.
struct Subject {
  replay::Scenario scenario;
  std::shared_ptr<LivePolicy> policy;  ///< null: the plan's own, or its order
  std::string policy_place;            ///< where the policy was given: `--policy`
  std::string command;                 ///< of the policy
};

/// Throws UsageError; for a swarm when there is anything to read.
Subject subject_of(const ExploreCommandOptions& options, replay::Exploring strategy);

/// What is read from the configuration and the shape. With order = adaptive a policy is asked live, in
/// every order that is tried; with a fixed order what it does in virtual time is the plan's own schedule.
Subject read_subject(const ExploreCommandOptions& options);

}  // namespace sluice::tools
