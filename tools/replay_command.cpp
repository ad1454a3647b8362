// sluice replay: runs a recorded training again, from the recording alone, and says whether it is the
// same.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/kernels/fashion_mnist.hpp>
#include <sluice/policy.hpp>
#include <sluice/replay/identity.hpp>
#include <sluice/replay/replayer.hpp>
#include <sluice/step_error.hpp>

#include "config.hpp"
#include "errors.hpp"
#include "explore_token_replay.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "recording_file.hpp"
#include "run_identity.hpp"
#include "subcommands.hpp"
#include "training.hpp"

namespace sluice::tools {
namespace {

using replay::Verdict;

struct ReplayOptions {
  std::filesystem::path recording;
  int threads = 1;
  std::vector<std::string> allow;
  bool json = false;
};

bool allows(const ReplayOptions& options, std::string_view name) {
  return std::find(options.allow.begin(), options.allow.end(), name) != options.allow.end();
}

ExitCode exit_code_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::same:
    case Verdict::recording_ends: return clean;
    case Verdict::refused: return unusable;
    default: return found;
  }
}

/// What is not as it was when the run was recorded, by name; allowed names are left out.
std::vector<replay::IdentityDifference> differences(const RecordedRun& run,
                                                    const kernels::DataSet& data,
                                                    const replay::Recording& recording,
                                                    const Plan& plan,
                                                    const ReplayOptions& options) {
  auto result =
      replay::compare_identities(run.identity, identity_of(run.config, data), options.allow);
  if (!allows(options, "plan")) {
    const auto of_plan = replay::compare_plans(recording, plan);
    result.insert(result.end(), of_plan.begin(), of_plan.end());
  }
  return result;
}

int refuse(const std::vector<replay::IdentityDifference>& differences,
           const ReplayOptions& options) {
  if (options.json) {
    Json json;
    json["verdict"] = to_string(Verdict::refused);
    for (const auto& difference : differences) {
      json["differences"][difference.key] = {{"recorded", difference.recorded},
                                             {"found", difference.found}};
    }
    write_result(to_text(json), std::nullopt);
  }
  std::vector<std::string> lines{
      error_line(options.recording.string(), "refused: the same numbers cannot be expected here")};
  for (const auto& difference : differences) {
    lines.push_back(fmt::format("  {}: recorded {}, here {}", difference.key, difference.recorded,
                                difference.found));
  }
  lines.push_back("  to replay all the same: --allow with these names, like --allow build,isa");
  throw UsageError(std::move(lines));
}

Json json_of(const replay::Divergence& divergence) {
  Json json;
  json["class"] = to_string(divergence.kind);
  json["seq"] = divergence.seq;
  json["step"] = divergence.step;
  json["rank"] = divergence.rank.value;
  json["local"] = divergence.local;
  if (divergence.stage) json["stage"] = divergence.stage->value;
  if (divergence.mb) json["mb"] = divergence.mb->value;
  if (divergence.phase) json["phase"] = std::string(1, letter(*divergence.phase));
  json["recorded"] = divergence.recorded;
  json["found"] = divergence.found;
  if (!divergence.last_agreeing.empty()) json["last_agreeing"] = divergence.last_agreeing;
  json["message"] = divergence.message;
  return json;
}

struct Replayed {
  std::string error;  ///< of the last step
  std::uint64_t weights_hash = 0;
};

Replayed run_steps(Training& training, const replay::Replayer& replayer, std::size_t steps) {
  Replayed replayed;
  Progress progress;
  while (replayer.more()) {
    try {
      training.step();
      replayed.error.clear();
    } catch (const StepError& error) {
      replayed.error = error.what();
    }
    if (progress.due()) {
      progress.show(fmt::format("step {}/{}  {} actions as recorded", replayer.steps(), steps,
                                replayer.actions()));
    }
  }
  replayed.weights_hash = training.weights_hash();
  return replayed;
}

std::string text_of(const replay::Replayer& replayer, const Replayed& replayed) {
  const Verdict verdict = replayer.verdict();
  std::string text = fmt::format("{}: {} steps, {} actions, {} events, {} hashes as recorded\n",
                                 to_string(verdict), replayer.steps(), replayer.actions(),
                                 replayer.events(), replayer.hashes());
  if (replayer.hashes() == 0 && !replayer.divergence()) {
    text += "the recording has no hashes: this is said of the order of actions alone\n";
  }
  if (replayer.divergence()) {
    text += replayer.divergence()->message;
    if (!text.ends_with('\n')) text += '\n';
  } else if (verdict == Verdict::recording_ends) {
    text += "the recording ends here; the run had gone on\n";
  } else if (verdict != Verdict::same) {
    text += replayed.error + '\n';
  }
  return text + fmt::format("weights hash      {:016x}\n", replayed.weights_hash);
}

int run(const ReplayOptions& options) {
  if (is_token(options.recording.string()))
    return replay_token_command(options.recording.string(), options.json);
  const RecordingFile file = open_recording(options.recording);
  if (!file.faults.empty() && !allows(options, "damage")) {
    throw UsageError(options.recording.string(),
                     fmt::format("{}; take a good copy, or replay what is left with --allow damage",
                                 fmt::join(file.faults, "; ")));
  }
  const replay::Recording& recording = *file.recording;
  const RecordedRun run = read_run(recording.header().identity, options.recording.string());
  const Plan plan = plan_of(run.config);
  const auto data = std::make_shared<const kernels::DataSet>(
      kernels::load_fashion_mnist(kernels::Subset::train, run.config.train.data));
  check_run(run.config, plan, *data);
  const auto different = differences(run, *data, recording, plan, options);
  if (!different.empty()) return refuse(different, options);

  const auto replayer = std::make_shared<replay::Replayer>(
      file.recording, plan, std::make_shared<LiveDirector>(policy_for(plan)));
  Training training(run.config, plan, data, options.threads, replayer);
  const Replayed replayed = run_steps(training, *replayer, recording.steps());

  if (options.json) {
    Json json;
    json["verdict"] = to_string(replayer->verdict());
    json["actions"] = replayer->actions();
    json["events"] = replayer->events();
    if (replayer->divergence()) json["divergence"] = json_of(*replayer->divergence());
    write_result(to_text(json), std::nullopt);
  } else {
    write_result(text_of(*replayer, replayed), std::nullopt);
  }
  return exit_code_of(replayer->verdict());
}

}  // namespace

Subcommand replay_command(CLI::App& sluice) {
  CLI::App* app = sluice.add_subcommand("replay", "Run a recorded training again, exactly");
  const auto options = std::make_shared<ReplayOptions>();
  app->add_option("RECORDING", options->recording, "what sluice train --record wrote")->required();
  app->add_option("--threads", options->threads, "run it on N threads; the result is the same")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app->add_option(
         "--allow", options->allow,
         "replay although these differ: build, compiler, library, isa, threads, data, plan")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(CLI::IsMember(
          {"build", "compiler", "library", "isa", "threads", "data", "plan", "damage"}))
      ->allow_extra_args(false);
  app->add_flag("--json", options->json, "print one JSON object instead of text");
  app->footer(
      "Exit code: 0 same, or the recording ends; 1 diverged, or failed or stuck as recorded; 2 "
      "refused.\n"
      "Example: replay on four threads what two threads recorded\n"
      "  sluice replay run.slrec --threads 4");
  return {app, [options] { return run(*options); }};
}

}  // namespace sluice::tools
