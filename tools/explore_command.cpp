// sluice explore: the same step again and again, each time in another order, until one goes wrong.

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sluice/replay/pipeline_explorer.hpp>
#include <sluice/replay/recorder.hpp>

#include "config.hpp"
#include "errors.hpp"
#include "explore_token_replay.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "shape_options.hpp"
#include "subcommands.hpp"

namespace sluice::tools {
namespace {

using replay::Exploring;

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

constexpr std::array<const char*, 10> fault_names{
    "throw", "slow", "nan", "alloc", "worker", "cancel", "deadline", "delay", "duplicate", "drop"};

/// The faults asked for that can strike here; the names of the others go to `elsewhere`.
std::vector<replay::Fault::Kind> faults_of(const ExploreCommandOptions& options,
                                           std::vector<std::string>& elsewhere) {
  std::vector<std::string> asked = options.faults;
  if (asked == std::vector<std::string>{"all"})
    asked.assign(fault_names.begin(), fault_names.end());
  std::vector<replay::Fault::Kind> kinds;
  for (const std::string& name : asked) {
    if (replay::needs_links(name)) {
      elsewhere.push_back(name);
    } else if (const auto kind = replay::parse_fault(name)) {
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

replay::Scenario scenario_of(const ExploreCommandOptions& options, Exploring strategy) {
  replay::Scenario scenario;
  scenario.suspends = options.suspend;
  const auto overrides = options.shape.overrides();
  if (strategy == Exploring::swarm) {
    if (options.config || !overrides.empty()) {
      throw UsageError(
          "--strategy swarm",
          "given beside a configuration or a shape: swarm draws its own; leave them out, "
          "or take another strategy");
    }
    scenario.config.stages = scenario.config.microbatches = 1;
    return scenario;
  }
  const Config config = read_config(options.config, overrides);
  plan_of(config);  // what makes it impossible is told with its place
  scenario.config = config.plan;
  return scenario;
}

std::string guarantee_of(const replay::PipelineExploration& result, Exploring strategy, int depth) {
  if (strategy == Exploring::exhaustive) {
    return fmt::format("{} states, {}; they stand for {:.3g} orders of events", result.states,
                       result.complete           ? "complete: every state there is"
                       : result.failures.empty() ? "not complete"
                                                 : "up to the first that is wrong",
                       result.interleavings);
  }
  std::string text =
      fmt::format("{} runs, {} different orders of events", result.runs, result.distinct);
  if (result.scenarios > 1) text += fmt::format(", {} scenarios", result.scenarios);
  if (strategy == Exploring::bounded) {
    text += fmt::format(
        "\nguarantee         {} orders with at most {} deviations from first in, first out",
        result.complete ? "all" : "not all", depth);
  } else if (strategy == Exploring::pct) {
    const double bound = replay::Pct::bound(result.tasks, result.steps, depth);
    text += fmt::format(
        "\nguarantee         a run finds a bug of depth {} with probability >= {:.3g} ({} tasks, "
        "{} "
        "steps); 99 % needs {} runs",
        depth, bound, result.tasks, result.steps, replay::Pct::runs_for_99_percent(bound));
  }
  return text;
}

std::string seen_in(const replay::PipelineExploration& result) {
  std::string seen;
  std::string never;
  for (std::size_t i = 0; i < replay::seen_count; ++i) {
    const auto count = result.coverage.counts[i];
    const auto name = to_string(static_cast<replay::Seen>(i));
    if (count > 0) {
      seen += fmt::format("{}{} ({})", seen.empty() ? "" : ", ", name, count);
    } else {
      never += fmt::format("{}{}", never.empty() ? "" : ", ", name);
    }
  }
  std::string text = fmt::format("happened          {}\n", seen);
  if (!never.empty()) text += fmt::format("never happened    {}\n", never);
  return text + fmt::format("repeated          {} runs made twice, and alike\n", result.repeated);
}

std::string text_of(const replay::PipelineFailure& failure) {
  std::string text = fmt::format("{}\n", failure.text);
  text += fmt::format("smallest          {}: {} deviations, fails {} times of 10\n",
                      to_string(failure.token.scenario), failure.token.deviations.size(),
                      failure.reproduced);
  if (!failure.flips.empty()) text += fmt::format("what decides      {}\n", failure.flips);
  text += fmt::format(
      "other orders      {} of 100 finish: {}\n", failure.others_finish,
      failure.others_finish == 0 ? "no race, it is the configuration or the policy" : "a race");
  text +=
      fmt::format("as it was met     {}: {} deviations, {}\n", to_string(failure.original.scenario),
                  failure.met_with, to_string(failure.original));
  if (!failure.token.own) {
    return text + fmt::format("to see it again\n  sluice replay {}\n", to_string(failure.token));
  }
  return text +
         fmt::format(
             "to see it again, with the same configuration\n  sluice explore ... --token {}\n",
             to_string(failure.token));
}

std::string text_of(const replay::PipelineExploration& result, const replay::Scenario& scenario,
                    const ExploreCommandOptions& options, Exploring strategy,
                    const std::vector<std::string>& elsewhere) {
  std::string text;
  if (strategy != Exploring::swarm) text += to_string(scenario) + '\n';
  text +=
      fmt::format("{:<18}{}\n", options.strategy, guarantee_of(result, strategy, options.depth));
  if (strategy != Exploring::exhaustive) text += seen_in(result);
  if (scenario.config.slots && strategy != Exploring::exhaustive) {
    text +=
        "slots             not of the runtime, whose edges never block: exhaustive knows them\n";
  }
  if (!elsewhere.empty()) {
    text += fmt::format(
        "not applicable    {}: stages of one process hand over in memory, there is no "
        "link to do that\n",
        fmt::join(elsewhere, ", "));
  }
  if (result.failures.empty()) return text + "nothing is wrong\n";
  text += '\n';
  for (const replay::PipelineFailure& failure : result.failures) text += text_of(failure);
  return text;
}

Json json_of(const replay::PipelineExploration& result, const std::vector<std::string>& elsewhere) {
  Json json;
  json["runs"] = result.runs;
  json["distinct"] = result.distinct;
  json["states"] = result.states;
  json["complete"] = result.complete;
  json["scenarios"] = result.scenarios;
  json["tasks"] = result.tasks;
  json["steps"] = result.steps;
  Json seen;
  for (std::size_t i = 0; i < replay::seen_count; ++i) {
    seen[std::string(to_string(static_cast<replay::Seen>(i)))] = result.coverage.counts[i];
  }
  json["happened"] = std::move(seen);
  if (!elsewhere.empty()) json["not_applicable"] = elsewhere;
  json["failures"] = Json::array();
  for (const replay::PipelineFailure& failure : result.failures) {
    Json one;
    one["kind"] = failure.kind;
    one["token"] = to_string(failure.token);
    one["deviations"] = failure.token.deviations.size();
    one["scenario"] = to_string(failure.token.scenario);
    one["reproduced"] = failure.reproduced;
    one["others_finish"] = failure.others_finish;
    if (!failure.flips.empty()) one["flips"] = failure.flips;
    one["original"] = to_string(failure.original);
    one["message"] = failure.text;
    json["failures"].push_back(std::move(one));
  }
  return json;
}

int run(const ExploreCommandOptions& options) {
  const auto strategy = *replay::parse_exploring(options.strategy);
  if (options.token) {
    const Config config = read_config(options.config, options.shape.overrides());
    return replay_token_command(*options.token, options.json, &config.plan);
  }
  std::vector<std::string> elsewhere;
  replay::PipelineExploreOptions explore;
  explore.strategy = strategy;
  explore.runs = options.runs;
  explore.seed = options.seed;
  explore.depth = options.depth;
  explore.kinds = faults_of(options, elsewhere);
  if (strategy == Exploring::exhaustive && !explore.kinds.empty()) {
    throw UsageError(
        "--faults",
        "given beside --strategy exhaustive, which goes through the states of the plan: "
        "faults strike the runtime; take another strategy, or no faults");
  }
  if (strategy == Exploring::exhaustive && options.record) {
    throw UsageError(
        "--record",
        "given beside --strategy exhaustive, which goes through the states of the plan: "
        "nothing runs there that could be recorded; take another strategy");
  }
  if (strategy == Exploring::pct && options.depth < 1) {
    throw UsageError("--depth", "0 with --strategy pct: a bug has a depth of at least 1");
  }
  const replay::Scenario scenario = scenario_of(options, strategy);
  replay::PipelineExploration result;
  {
    Progress progress;
    const char* const unit = strategy == Exploring::exhaustive ? "states" : "runs";
    explore.progress = [&progress, unit](std::int64_t done) {
      if (progress.due()) progress.show(fmt::format("explore: {} {}", done, unit));
    };
    result = explore_pipeline(scenario, explore);
  }
  if (options.json) {
    write_result(to_text(json_of(result, elsewhere)), std::nullopt);
  } else {
    write_result(text_of(result, scenario, options, strategy, elsewhere), std::nullopt);
  }
  if (result.failures.empty()) return clean;
  if (options.record) {  // last: whatever it meets, the result is out
    record_token(result.failures.front().token, *options.record);
    if (!options.json) {
      write_result(
          fmt::format("recorded\n  sluice replay {} --schedule-only\n", options.record->string()),
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
         "shapes drawn too; exhaustive: every state of the plan")
      ->type_name("NAME")
      ->check(CLI::IsMember({"exhaustive", "bounded", "pct", "random", "swarm"}));
  app->add_option("--runs", options->runs, "at most so many; default 10000")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app->add_option("--seed", options->seed, "of everything that is drawn; default 1")
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
  app->add_option("--token", options->token,
                  "run the order of this token alone, on the configuration it was found with")
      ->type_name("TOKEN");
  app->add_flag("--json", options->json, "print one JSON object instead of text");
  app->footer(
      "Exit code: 0 nothing is wrong; 1 an order fails; 2 usage, or a configuration without a "
      "plan.\n"
      "Examples: every state of a plan; the runtime under faults, until one ends as it should not\n"
      "  sluice explore -S 4 -M 4 --slots 2 --strategy exhaustive\n"
      "  sluice explore -S 4 -M 8 --order adaptive --strategy pct --faults all --runs 50000");
  return {app, [options] { return run(*options); }};
}

}  // namespace sluice::tools
