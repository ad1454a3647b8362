#include "explore_report.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace sluice::tools {
namespace {

using replay::Exploring;

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

/// Between single quotes, for a shell.
std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char letter : text)
    result += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return result + "'";
}

/// The command that runs the order of `token`. It brings along what the token does not hold.
std::string again(const replay::Token& token, const Subject& subject,
                  const ExploreCommandOptions& options) {
  const std::string text = to_string(token);
  if (!token.own) return "sluice replay " + text;
  if (subject.policy) {
    const std::string order =
        token.scenario.config.order == OrderMode::fixed ? " --order adaptive" : "";
    return fmt::format("sluice explore {}{} --policy {} --token {}",
                       replay::options_of(token.scenario.config), order, in_quotes(subject.command),
                       text);
  }
  std::string given;
  if (options.config) given += ' ' + in_quotes(options.config->string());
  for (const auto& [option, value] : options.shape.given()) {
    given += fmt::format(" {} {}", option, in_quotes(value));
  }
  return fmt::format("sluice explore{} --token {}", given, text);
}

std::string text_of(const replay::PipelineFailure& failure, const Subject& subject,
                    const ExploreCommandOptions& options) {
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
  text += fmt::format("in full           {}\n", expansion_of(failure.original.scenario));
  return text + fmt::format("to see it again\n  {}\n", again(failure.token, subject, options));
}

}  // namespace

std::string to_string(const ExploreReport& report) {
  const auto& [result, subject, options, drawn, expansions, elsewhere] = report;
  const Exploring strategy = *replay::parse_exploring(options.strategy);
  std::string text;
  if (strategy != Exploring::swarm) text += to_string(subject.scenario) + '\n';
  if (subject.policy) text += fmt::format("policy            {}, asked live\n", subject.command);
  text +=
      fmt::format("{:<18}{}\n", options.strategy, guarantee_of(result, strategy, options.depth));
  if (strategy != Exploring::exhaustive) text += seen_in(result);
  if (strategy == Exploring::swarm) text += drawn.text();
  if (!elsewhere.empty()) {
    text += fmt::format("not applicable    {}: with one rank nothing is handed over\n",
                        fmt::join(elsewhere, ", "));
  }
  if (result.failures.empty()) return text + "nothing is wrong\n";
  text += '\n';
  for (const replay::PipelineFailure& failure : result.failures) {
    text += text_of(failure, subject, options);
  }
  return text;
}

Json json_of(const ExploreReport& report) {
  const auto& [result, subject, options, drawn, expansions, elsewhere] = report;
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
  if (!expansions.empty()) json["drawn"] = expansions;
  json["failures"] = Json::array();
  for (const replay::PipelineFailure& failure : result.failures) {
    Json one;
    one["kind"] = failure.kind;
    one["token"] = to_string(failure.token);
    one["deviations"] = failure.token.deviations.size();
    one["scenario"] = to_string(failure.token.scenario);
    one["expansion"] = expansion_of(failure.original.scenario);
    one["again"] = again(failure.token, subject, options);
    one["reproduced"] = failure.reproduced;
    one["others_finish"] = failure.others_finish;
    if (!failure.flips.empty()) one["flips"] = failure.flips;
    one["original"] = to_string(failure.original);
    one["message"] = failure.text;
    json["failures"].push_back(std::move(one));
  }
  return json;
}

}  // namespace sluice::tools
