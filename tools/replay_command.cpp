// sluice replay: runs a recorded training again, from the recording alone, and says whether it is the
// same.

#include <algorithm>
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
#include <sluice/replay/investigation.hpp>
#include <sluice/replay/replayer.hpp>
#include <sluice/replay/schedule_replay.hpp>
#include <sluice/step_error.hpp>

#include "config.hpp"
#include "errors.hpp"
#include "explore_token_replay.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "recorded_events.hpp"
#include "recording_file.hpp"
#include "replay_report.hpp"
#include "run_identity.hpp"
#include "subcommands.hpp"
#include "training.hpp"
#include "until.hpp"

namespace sluice::tools {
namespace {

using replay::HandOver;
using replay::Replayer;
using replay::Verdict;

struct Options {
  std::filesystem::path recording;
  int threads = 1;
  std::string until;
  HandOver then = HandOver::stop;
  std::optional<int> rank;
  bool schedule_only = false;
  std::vector<std::string> allow;
  bool json = false;
};

bool allows(const Options& options, std::string_view name) {
  return std::find(options.allow.begin(), options.allow.end(), name) != options.allow.end();
}

[[noreturn]] void refuse(const std::vector<replay::IdentityDifference>& differences,
                         const Options& options) {
  if (options.json) {
    Json json;
    json["verdict"] = to_string(Verdict::refused);
    json["differences"] = json_of(differences);
    write_result(to_text(json), std::nullopt);
  }
  std::vector<std::string> lines{
      error_line(options.recording.string(), "refused: the same numbers cannot be expected here")};
  for (const auto& difference : differences) {
    lines.push_back(fmt::format("  {}: recorded {}, here {}", difference.key, difference.recorded,
                                difference.found));
  }
  lines.push_back("  to replay all the same: --allow with these names, like --allow build,isa");
  lines.push_back(
      "  to replay the order of actions alone, which needs none of them: --schedule-only");
  throw Refused(std::move(lines));
}

/// What a replay is made of, several times when there is something to find out.
struct Setup {
  std::shared_ptr<const replay::Recording> recording;
  const Config& config;
  const Plan& plan;
  std::shared_ptr<const kernels::DataSet> data;
  int threads = 1;
};

struct Failure {
  std::int64_t step = 0;
  std::optional<Action> action;
  std::string message;
};

struct Replayed {
  std::shared_ptr<Replayer> replayer;
  std::optional<Failure> failure;  ///< of the last step
  std::uint64_t weights_hash = 0;
  std::int64_t live_steps = 0;  ///< behind the recorded ones
};

Replayed run_steps(const Setup& setup, const replay::ReplayOptions& options) {
  Replayed replayed;
  replayed.replayer = std::make_shared<Replayer>(
      setup.recording, setup.plan, std::make_shared<LiveDirector>(policy_for(setup.plan)), options);
  const Replayer& replayer = *replayed.replayer;
  Training training(setup.config, setup.plan, setup.data, setup.threads, replayed.replayer);
  Progress progress;
  const auto live = [&] { return replayer.reached() && options.then == HandOver::live; };
  const auto steps = [&] {
    return static_cast<std::int64_t>(replayer.steps()) + replayed.live_steps;
  };
  while (replayer.more() || (live() && !replayed.failure && steps() < training.steps())) {
    replayed.live_steps += live() ? 1 : 0;
    try {
      training.step();
      replayed.failure.reset();
    } catch (const StepError& error) {
      replayed.failure = Failure{steps() - 1, error.action(), error.what()};
    }
    if (progress.due()) {
      progress.show(fmt::format("step {}/{}  {} actions as recorded", steps(),
                                setup.recording->steps(), replayer.actions()));
    }
  }
  replayed.weights_hash = training.weights_hash();
  return replayed;
}

/// The command that shows the place of a divergence, or stops before a failure.
std::string closer(const Options& options, std::string_view until) {
  std::string command =
      fmt::format("sluice replay {} --until {}", options.recording.string(), until);
  if (!options.allow.empty()) command += fmt::format(" --allow {}", fmt::join(options.allow, ","));
  if (options.schedule_only) command += " --schedule-only";
  return command;
}

std::string closer(const Options& options, const replay::Divergence& divergence) {
  return fmt::format(
      "  to look closer: {}\n  what was recorded there: sluice show {} --seq {}..{}\n",
      closer(options, fmt::format("step={},seq={}", divergence.step, divergence.seq)),
      options.recording.string(), std::max<std::int64_t>(1, divergence.seq - 10),
      divergence.seq + 5);
}

/// How a rank stood when the replay had come to its end, or to its point.
std::string rank_text(const replay::Recording& recording, RankId rank, std::size_t steps,
                      const std::optional<replay::ReplayPoint>& until) {
  if (steps == 0) return "";
  const auto step = recording.step(steps - 1);
  constexpr std::size_t shown = 8;
  std::vector<std::string> lines;
  for (const NumberedEvent& numbered : events_of(step, {})) {
    if (until && numbered.seq >= until->seq) break;
    if (numbered.event.rank != rank) continue;
    lines.push_back(
        fmt::format("  seq {:<14}{}\n", numbered.seq, replay::to_string(numbered.event)));
  }
  const std::size_t first = lines.size() > shown ? lines.size() - shown : 0;
  std::string text = fmt::format("rank {} in step {}, its last lines:\n", rank.value, step.number);
  for (std::size_t i = first; i < lines.size(); ++i) text += lines[i];
  return lines.empty() ? fmt::format("rank {} in step {}: nothing yet\n", rank.value, step.number)
                       : text;
}

void tell(const Options& options, const replay::Recording& recording, const Replayed& replayed,
          const std::optional<replay::Investigation>& investigation,
          const std::vector<replay::IdentityDifference>& differences,
          const std::optional<replay::ReplayPoint>& until) {
  const Replayer& replayer = *replayed.replayer;
  if (options.json) {
    Json json;
    json["verdict"] = to_string(replayer.verdict());
    json["steps"] = replayer.steps();
    json["actions"] = replayer.actions();
    json["events"] = replayer.events();
    json["hashes"] = replayer.hashes();
    json["weights_hash"] = fmt::format("{:016x}", replayed.weights_hash);
    if (until && replayer.reached()) {
      Json& at = json["reached"];
      at["step"] = until->step;
      at["seq"] = until->seq;
      at["stage"] = until->action.stage.value;
      at["mb"] = until->action.mb.value;
      at["phase"] = std::string(1, letter(until->action.phase));
    }
    if (replayed.live_steps > 0) json["live_steps"] = replayed.live_steps;
    const bool stopped = replayer.reached() && options.then == HandOver::stop;
    if (replayed.failure && !stopped && !replayer.divergence()) {
      Json& failure = json["failure"];
      failure["step"] = replayed.failure->step;
      if (const auto& action = replayed.failure->action) {
        failure["stage"] = action->stage.value;
        failure["mb"] = action->mb.value;
        failure["phase"] = std::string(1, letter(action->phase));
      }
      failure["message"] = replayed.failure->message;
    }
    if (investigation) json["divergence"] = json_of(*investigation);
    if (!differences.empty()) json["differences"] = json_of(differences);
    write_result(to_text(json), std::nullopt);
    return;
  }

  const Verdict verdict = replayer.verdict();
  std::string text = fmt::format("{}: {} steps, {} actions, {} events, {} hashes as recorded\n",
                                 to_string(verdict), replayer.steps(), replayer.actions(),
                                 replayer.events(), replayer.hashes());
  if (investigation) {
    text += to_string(*investigation) + identity_text(differences) +
            closer(options, investigation->divergence);
  } else {
    if (replayer.hashes() == 0) {
      text += "the recording has no hashes: this is said of the order of actions alone\n";
    }
    if (until && replayer.reached()) {
      text += fmt::format("stopped before {}\n", to_string(*until));
      if (options.then == HandOver::live) {
        text += fmt::format("and went on live: {} further steps\n", replayed.live_steps);
      }
    }
    if (verdict == Verdict::recording_ends)
      text += "the recording ends here; the run had gone on\n";
    const bool stopped = replayer.reached() && options.then == HandOver::stop;
    if (replayed.failure && !stopped && verdict != Verdict::recording_ends) {
      text += replayed.failure->message + '\n';
      if (const auto& action = replayed.failure->action) {
        text +=
            fmt::format("to stop right before it: {}\n",
                        closer(options, fmt::format("step={},mb={},stage={},phase={}",
                                                    replayed.failure->step, action->mb.value,
                                                    action->stage.value, letter(action->phase))));
      }
    }
    text += coverage_of(replayer);
  }
  if (options.rank) {
    text += rank_text(recording, RankId(*options.rank), replayer.steps(),
                      replayer.reached() ? until : std::nullopt);
  }
  write_result(text + fmt::format("weights hash      {:016x}\n", replayed.weights_hash),
               std::nullopt);
}

int replay_order(const Options& options, const std::shared_ptr<const replay::Recording>& recording,
                 const std::optional<replay::ReplayPoint>& until) {
  const auto replayed = replay::replay_schedule(recording, until);
  if (options.json) {
    Json json;
    json["verdict"] = to_string(replayed.verdict);
    json["schedule_only"] = true;
    json["steps"] = replayed.steps;
    json["actions"] = replayed.actions;
    json["events"] = replayed.events;
    if (replayed.divergence) json["divergence"] = json_of(*replayed.divergence);
    write_result(to_text(json), std::nullopt);
  } else {
    std::string text = fmt::format(
        "{}: {} steps, {} actions, {} events as recorded\nschedule matched, values not compared: "
        "stages were stubs, hashes are the recorded ones\n",
        to_string(replayed.verdict), replayed.steps, replayed.actions, replayed.events);
    if (replayed.divergence) {
      text = fmt::format("{}: {} actions as recorded\n{}\n{}{}", to_string(replayed.verdict),
                         replayed.actions, replayed.divergence->message,
                         circumstances_of(*replayed.divergence),
                         closer(options, *replayed.divergence));
    } else if (until) {
      text += fmt::format("stopped before {}\n", to_string(*until));
    } else if (replayed.verdict == Verdict::recording_ends) {
      text += "the recording ends here; the run had gone on\n";
    } else if (!replayed.error.empty()) {
      text += replayed.error + '\n';
    }
    if (options.rank) text += rank_text(*recording, RankId(*options.rank), replayed.steps, until);
    write_result(text, std::nullopt);
  }
  return exit_code_of(replayed.verdict);
}

int run(const Options& options) {
  if (is_token(options.recording.string())) {
    return replay_token_command(options.recording.string(), options.json);
  }
  const RecordingFile file = open_recording(options.recording);
  if (!file.faults.empty() && !allows(options, "damage")) {
    throw UsageError(options.recording.string(),
                     fmt::format("{}; take a good copy, or replay what is left with --allow damage",
                                 fmt::join(file.faults, "; ")));
  }
  const replay::Recording& recording = *file.recording;
  if (options.rank && *options.rank >= recording.header().ranks) {
    throw UsageError(
        "--rank", fmt::format("{}: expected 0 to {}", *options.rank, recording.header().ranks - 1));
  }
  std::optional<replay::ReplayPoint> until;
  if (!options.until.empty()) until = point_in(recording, parse_until(options.until));
  if (options.schedule_only) return replay_order(options, file.recording, until);
  if (const auto token = explored_token(recording)) {
    if (until) {
      throw UsageError("--until",
                       "an explored run is replayed whole; with --schedule-only it stops");
    }
    return replay_explored_command(recording, *token, options.json);
  }

  if (recording.begins_late()) {
    throw UsageError(
        options.recording.string(),
        fmt::format("begins with step {}: what came before has fallen off its ring, and "
                    "with it the weights; replay the order alone with --schedule-only, "
                    "or record the whole run: sluice train --record FILE",
                    recording.first_step()));
  }
  RecordedRun run = read_run(recording.header().identity, options.recording.string());
  if (file.data) run.config.train.data = *file.data;
  const Plan plan = plan_of(run.config);
  const auto data = std::make_shared<const kernels::DataSet>(
      kernels::load_fashion_mnist(kernels::Subset::train, run.config.train.data));
  check_run(run.config, plan, *data);
  const auto identity = identity_of(run.config, *data);
  auto different = replay::compare_identities(run.identity, identity, options.allow);
  if (!allows(options, "plan")) {
    const auto of_plan = replay::compare_plans(recording, plan);
    different.insert(different.end(), of_plan.begin(), of_plan.end());
  }
  if (!different.empty()) refuse(different, options);

  const Setup setup{file.recording, run.config, plan, data, options.threads};
  replay::ReplayOptions of_replay;
  of_replay.until = until;
  of_replay.then = options.then;
  const Replayed replayed = run_steps(setup, of_replay);
  std::optional<replay::Investigation> investigation;
  if (replayed.replayer->divergence()) {
    investigation = replay::investigate(
        *replayed.replayer, of_replay,
        [&](const replay::ReplayOptions& again) { return run_steps(setup, again).replayer; });
  }
  tell(options, recording, replayed, investigation,
       replay::compare_identities(run.identity, identity), until);
  return exit_code_of(replayed.replayer->verdict());
}

}  // namespace

Subcommand replay_command(CLI::App& sluice) {
  CLI::App* app = sluice.add_subcommand("replay", "Run a recorded training again, exactly");
  const auto options = std::make_shared<Options>();
  app->add_option(
         "RECORDING", options->recording,
         "what sluice train --record, sluice pack or sluice explore --record wrote, or a token of"
         " sluice explore")
      ->required();
  app->add_option("--until", options->until,
                  "stop before a line of the log, or before an action: seq=N, step=N,seq=N, or "
                  "step=N,mb=N,stage=N,phase=P")
      ->type_name("POINT");
  static const std::map<std::string, HandOver> what_then{
      {"stop", HandOver::stop}, {"break", HandOver::resume}, {"live", HandOver::live}};
  app->add_option(
         "--then", options->then,
         "what follows at --until: stop (default); break, which calls sluice_stop_here for "
         "a debugger and goes on; live, without the recording")
      ->transform(CLI::CheckedTransformer(what_then).description(""))
      ->type_name("stop|break|live")
      ->needs("--until");
  app->add_flag(
      "--schedule-only", options->schedule_only,
      "replay the order of actions alone, without data and kernels; any recording, on any "
      "machine");
  app->add_option("--threads", options->threads, "run it on N threads; the result is the same")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app->add_option("--rank", options->rank, "show at the end what this rank did last")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  app->add_option(
         "--allow", options->allow,
         "replay although these differ: build, compiler, library, isa, threads, data, plan, damage")
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
      "  sluice replay run.slrec --threads 4\n"
      "Example: under a debugger, into the action that fails\n"
      "  gdb -ex 'break sluice_stop_here' -ex run --args \\\n"
      "    sluice replay night.slrec --until step=5,mb=3,stage=1,phase=F --then break");
  return {app, [options] { return or_refused(options->json, [&] { return run(*options); }); }};
}

}  // namespace sluice::tools
