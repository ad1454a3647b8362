#include "explore_token_replay.hpp"

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include <sluice/finding.hpp>
#include <sluice/replay/pipeline_explorer.hpp>
#include <sluice/replay/recorder.hpp>
#include <sluice/replay/replayer.hpp>

#include "config.hpp"
#include "errors.hpp"
#include "output.hpp"
#include "run_identity.hpp"

namespace sluice::tools {
namespace {

replay::Token readable(std::string_view text) {
  try {
    return replay::parse_token(text);
  } catch (const std::invalid_argument& error) {
    throw UsageError("sluice replay", error.what());
  }
}

replay::Outcome replayed(const replay::Token& token) {
  try {
    return replay::replay_token(token);
  } catch (const ConfigError& error) {
    throw UsageError(to_string(token),
                     fmt::format("its scenario has no plan here: {}", error.what()));
  }
}

/// The schedule that was explored has to come from where it came from then.
void bring_schedule(replay::Token& token, const PlanConfig& with) {
  const PlanConfig& config = token.scenario.config;
  if (config.stages != with.stages || config.microbatches != with.microbatches) {
    throw UsageError(
        "--token",
        fmt::format("{} is of -S {} -M {}, the configuration of -S {} -M {}; give the one "
                    "that it was found with",
                    to_string(token), config.stages, config.microbatches, with.stages,
                    with.microbatches));
  }
  token.scenario.config = with;
}

replay::Verdict verdict_of(const replay::Outcome& outcome) {
  if (outcome.kind.empty()) return replay::Verdict::same;
  return outcome.kind == "stuck" ? replay::Verdict::stuck_as_recorded
                                 : replay::Verdict::failed_as_recorded;
}

}  // namespace

bool is_token(std::string_view text) { return text.starts_with("slc1:"); }

int replay_token_command(std::string_view text, bool json, const PlanConfig* with) {
  replay::Token token = readable(text);
  if (with != nullptr) {
    bring_schedule(token, *with);
  } else if (token.own) {
    throw UsageError(
        std::string(text),
        "its schedule or policy is not in it, no token holds one: give the schedule with "
        "sluice explore SHAPE --token TOKEN, or call replay_token with the policy, where "
        "it was explored");
  }
  const replay::Outcome outcome = replayed(token);
  const replay::Verdict verdict = verdict_of(outcome);
  if (json) {
    Json result;
    result["verdict"] = to_string(verdict);
    result["scenario"] = to_string(token.scenario);
    if (!token.walk) result["deviations"] = token.deviations.size();
    if (!outcome.kind.empty()) result["kind"] = outcome.kind;
    if (!outcome.text.empty()) result["message"] = outcome.text;
    write_result(to_text(result), std::nullopt);
  } else {
    std::string result =
        fmt::format("{}: {} of {}, {}\n", to_string(verdict), to_string(token.scenario),
                    token.world == replay::World::model ? "the plan's states" : "the runtime",
                    token.walk ? fmt::format("run {} of seed {}", token.walk->run, token.walk->seed)
                               : fmt::format("{} deviations", token.deviations.size()));
    result += outcome.kind.empty() ? "nothing is wrong in this order\n" : outcome.text + '\n';
    write_result(result, std::nullopt);
  }
  return outcome.kind.empty() ? clean : found;
}

void record_token(const replay::Token& token, const std::filesystem::path& file) {
  if (token.world == replay::World::model) {
    throw UsageError(
        "--record",
        "exhaustive goes through the states of the plan, and nothing runs that could be "
        "recorded; the token repeats it");
  }
  std::shared_ptr<replay::Recorder> recorder;
  replay::RecorderOptions options;
  Config config;
  config.plan = token.scenario.config;
  options.identity = describe_run(config, {{"explored", to_string(token)}});
  replay::replay_token(token, nullptr, [&](const Plan& plan, std::shared_ptr<Director> inner) {
    recorder = std::make_shared<replay::Recorder>(file.string(), plan, std::move(inner), options);
    return recorder;
  });
  recorder->close();
}

}  // namespace sluice::tools
