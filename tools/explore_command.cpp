// sluice explore: the same step again and again, each time in another order, until one goes wrong.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <sluice/replay/pipeline_explorer.hpp>
#include <sluice/replay/recorder.hpp>

#include "errors.hpp"
#include "explore_report.hpp"
#include "explore_subject.hpp"
#include "explore_token_replay.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "subcommands.hpp"

namespace sluice::tools {
namespace {

using replay::Exploring;

/// CLI11 takes a number that does not fit, or is below 0, for another one, and nothing for 0.
std::string check_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return fmt::format("'{}': expected a whole number from 0 to {}", text,
                     std::numeric_limits<std::uint64_t>::max());
}

constexpr std::array<const char*, 10> fault_names{
    "throw", "slow", "nan", "alloc", "worker", "cancel", "deadline", "delay", "duplicate", "drop"};

std::vector<replay::Fault::Kind> faults_of(const ExploreCommandOptions& options) {
  std::vector<std::string> asked = options.faults;
  if (asked == std::vector<std::string>{"all"})
    asked.assign(fault_names.begin(), fault_names.end());
  std::vector<replay::Fault::Kind> kinds;
  for (const std::string& name : asked) {
    if (const auto kind = replay::parse_fault(name)) {
      kinds.push_back(*kind);
    } else {
      const std::vector<std::string> names(fault_names.begin(), fault_names.end());
      throw UsageError("--faults",
                       fmt::format("no fault is called '{}'{}; expected all, or some of {}", name,
                                   did_you_mean(name, names), fmt::join(names, ", ")));
    }
  }
  return kinds;
}

/// The faults that there is nothing to strike for.
std::vector<std::string> not_applicable(std::vector<replay::Fault::Kind>& kinds, const Plan& plan) {
  std::vector<std::string> names;
  std::erase_if(kinds, [&](replay::Fault::Kind kind) {
    if (can_strike(kind, plan)) return false;
    names.emplace_back(to_string(kind));
    return true;
  });
  return names;
}

/// Refuses what does not go together.
void check(const ExploreCommandOptions& options, Exploring strategy, const Subject& subject,
           bool faults) {
  if (options.record && (options.record->filename().empty() ||
                         (options.record->has_parent_path() &&
                          !std::filesystem::is_directory(options.record->parent_path())))) {
    throw UsageError("--record", fmt::format("'{}': expected a new file in a folder that is there",
                                             options.record->string()));
  }
  if (options.record && std::filesystem::exists(*options.record)) {
    throw UsageError(options.record->string(),
                     "exists, and is not written over; expected a new file for --record");
  }
  if (strategy == Exploring::pct && options.depth < 1) {
    throw UsageError("--depth", "0 with --strategy pct: a bug has a depth of at least 1");
  }
  if (strategy != Exploring::exhaustive) return;
  if (faults) {
    throw UsageError(
        "--faults",
        "given beside --strategy exhaustive, which goes through the states of the plan: "
        "faults strike the runtime; take another strategy, or no faults");
  }
  if (options.record) {
    throw UsageError(
        "--record",
        "given beside --strategy exhaustive, which goes through the states of the plan: "
        "nothing runs there that could be recorded; take another strategy");
  }
  if (subject.policy) {
    throw UsageError(
        subject.policy_place,
        "a policy that is asked live beside --strategy exhaustive, which asks it in many states "
        "at once: a child is in one; take another strategy, or --order fixed for the order that "
        "it has in virtual time");
  }
}

int run(const ExploreCommandOptions& options) {
  const auto strategy = *replay::parse_exploring(options.strategy);
  if (options.token) {
    const Subject subject = read_subject(options);
    return replay_token_command(*options.token, options.json, &subject.scenario.config,
                                subject.policy);
  }
  replay::PipelineExploreOptions explore;
  explore.strategy = strategy;
  explore.runs = options.runs;
  explore.seed = options.seed;
  explore.depth = options.depth;
  explore.kinds = faults_of(options);
  const Subject subject = subject_of(options, strategy);
  check(options, strategy, subject, !explore.kinds.empty());
  std::vector<std::string> elsewhere;
  if (strategy != Exploring::swarm) {
    elsewhere = not_applicable(explore.kinds, derive_plan(subject.scenario.config));
  }
  Drawn drawn;
  std::vector<std::string> expansions;
  if (strategy == Exploring::swarm) {
    explore.drawn = [&](const replay::Scenario& scenario) {
      drawn.add(scenario);
      if (options.json) expansions.push_back(expansion_of(scenario));
    };
  }
  replay::PipelineExploration result;
  try {
    Progress progress;
    const bool states = strategy == Exploring::exhaustive;
    explore.progress = [&](std::int64_t done) {
      if (!progress.due()) return;
      progress.show(states ? fmt::format("explore: {} states", done)
                           : fmt::format("explore: {} of {} runs", done, options.runs));
    };
    result = explore_pipeline(subject.scenario, explore, subject.policy);
  } catch (const std::invalid_argument& error) {
    throw UsageError("sluice explore", error.what());
  }
  if (subject.policy && !subject.policy->error().empty()) {
    throw UsageError(subject.policy_place, subject.policy->error());
  }
  const ExploreReport report{result, subject, options, drawn, expansions, elsewhere};
  write_result(options.json ? to_text(json_of(report)) : to_string(report), std::nullopt);
  if (result.failures.empty()) return clean;
  if (options.record) {  // last: whatever it meets, the result is out
    const replay::Token& token = result.failures.front().token;
    record_token(token, *options.record, subject.policy);
    if (!options.json) {
      write_result(fmt::format("recorded\n  sluice replay {}{}\n", options.record->string(),
                               token.own ? " --schedule-only" : ""),
                   std::nullopt);
    }
  }
  return found;
}

}  // namespace

Subcommand explore_command(CLI::App& sluice) {
  CLI::App* app =
      sluice.add_subcommand("explore", "Run a step in many orders, to find the one that fails");
  const auto options = std::make_shared<ExploreCommandOptions>(*app);
  app->add_option("CONFIG", options->config, "configuration (TOML); shape options override it");
  app->add_option(
         "--strategy", options->strategy,
         "random (default); pct: priorities, with a bound; bounded: few deviations; swarm: "
         "schedule, shape, costs, links and fault drawn for each run; exhaustive: every state of "
         "the plan")
      ->type_name("NAME")
      ->check(CLI::IsMember({"exhaustive", "bounded", "pct", "random", "swarm"}));
  app->add_option("--runs", options->runs, "at most so many; default 10000")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app->add_option("--seed", options->seed, "of everything that is drawn; default 1")
      ->check(check_seed)
      ->type_name("N");
  app->add_option(
         "--depth", options->depth,
         "bounded: the most deviations, 0 to 2; pct: the depth of a bug, 1 to 3; default 2")
      ->type_name("N")
      ->check(CLI::Range(0, 3));
  app->add_option(
         "--faults", options->faults,
         "all, or some of throw, slow, nan, alloc, worker, cancel, deadline, delay, duplicate, "
         "drop")
      ->type_name("LIST")
      ->delimiter(',')
      ->allow_extra_args(false);
  app->add_flag("--suspend", options->suspend,
                "stage functions suspend once, and let others go first");
  app->add_option("--record", options->record, "write a recording of the failing run")
      ->type_name("FILE");
  CLI::Option* token =
      app->add_option("--token", options->token,
                      "run the order of this token alone, on the configuration it was found with")
          ->type_name("TOKEN");
  for (const char* searching :
       {"--strategy", "--runs", "--seed", "--depth", "--faults", "--suspend", "--record"}) {
    token->excludes(app->get_option(searching));
  }
  app->add_flag("--json", options->json, "print one JSON object instead of text");
  app->footer(
      "Exit code: 0 nothing is wrong; 1 an order fails; 2 usage, or a configuration without a "
      "plan.\n"
      "A policy of one's own (--policy) is asked live, in each order that is tried, with --order\n"
      "adaptive; otherwise the order that it has in virtual time is explored.\n"
      "Examples: every state of a plan; the runtime under faults, until one ends as it should not\n"
      "  sluice explore -S 4 -M 4 --slots 2 --strategy exhaustive\n"
      "  sluice explore -S 4 -M 8 --order adaptive --strategy pct --faults all --runs 50000");
  return {app, [options] { return run(*options); }};
}

}  // namespace sluice::tools
