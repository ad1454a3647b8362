// sluice replay: runs a recorded training again, from the recording alone, and says whether it is the
// same.

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sluice/kernels/fashion_mnist.hpp>
#include <sluice/replay/identity.hpp>
#include <sluice/replay/investigation.hpp>
#include <sluice/replay/replayer.hpp>
#include <sluice/replay/schedule_replay.hpp>

#include "config.hpp"
#include "errors.hpp"
#include "explore_token_replay.hpp"
#include "recording_file.hpp"
#include "replay_outcome.hpp"
#include "replay_report.hpp"
#include "replay_run.hpp"
#include "run_identity.hpp"
#include "subcommands.hpp"
#include "training.hpp"
#include "until.hpp"

namespace sluice::tools {
namespace {

using replay::HandOver;

struct Options {
  std::filesystem::path recording;
  std::optional<int> threads;
  std::optional<std::string> until;
  HandOver then = HandOver::stop;
  std::optional<int> rank;
  bool schedule_only = false;
  std::vector<std::string> allow;
  bool json = false;
};

bool allows(const Options& options, std::string_view name) {
  return std::find(options.allow.begin(), options.allow.end(), name) != options.allow.end();
}

/// The point of --until. An action that is named has to be one of the rank's that is looked at.
std::optional<replay::ReplayPoint> point_of(const Options& options,
                                            const replay::Recording& recording) {
  if (!options.until) return std::nullopt;
  const Until until = parse_until(*options.until);
  const replay::ReplayPoint point = point_in(recording, until);
  if (options.rank && until.phase && point.rank != RankId(*options.rank)) {
    throw UsageError("--rank", fmt::format("{}: stage {} of --until is on rank {}", *options.rank,
                                           *until.stage, point.rank.value));
  }
  return point;
}

/// An explored run has one thread and no moment to stop at. `instead`: what does heed these options.
void check_explored(const Options& options, std::string_view instead) {
  const std::array<std::pair<std::string_view, bool>, 3> given{
      {{"--threads", options.threads.has_value()},
       {"--rank", options.rank.has_value()},
       {"--until", options.until.has_value()}}};
  for (const auto& [name, is_given] : given) {
    if (!is_given) continue;
    throw UsageError(std::string(name),
                     fmt::format("an explored run is replayed whole, in virtual time on one "
                                 "thread; leave it out{}",
                                 name == "--threads" ? "" : instead));
  }
}

/// The training data of the run: those in its case file, or where its configuration says.
std::shared_ptr<const kernels::DataSet> data_of(const RecordingFile& file, const Config& config) {
  if (!file.of_case) {
    return std::make_shared<const kernels::DataSet>(
        kernels::load_fashion_mnist(kernels::Subset::train, config.train.data));
  }
  const auto bytes = [](const std::string& part) {
    return std::span(reinterpret_cast<const std::uint8_t*>(part.data()), part.size());
  };
  return std::make_shared<const kernels::DataSet>(
      kernels::parse_fashion_mnist(bytes(file.of_case->images), bytes(file.of_case->labels)));
}

int run(const Options& options) {
  if (is_token(options.recording.string())) {
    check_explored(options, "");
    if (options.schedule_only || !options.allow.empty()) {
      throw UsageError(options.schedule_only ? "--schedule-only" : "--allow",
                       "a token holds no recording; leave it out");
    }
    return replay_token_command(options.recording.string(), options.json);
  }
  const RecordingFile file = open_recording(options.recording);
  if (!file.faults.empty() && !allows(options, "damage")) {
    throw UsageError(options.recording.string(),
                     fmt::format("{}; take a good copy, or replay what is left with --allow damage",
                                 fmt::join(file.faults, "; ")));
  }
  const replay::Recording& recording = *file.recording;
  check_rank(recording, options.rank);
  const ReplayAsked asked{options.recording.string(),   options.allow, options.rank,
                          point_of(options, recording), options.then,  options.json};
  if (options.schedule_only) {
    const auto replayed = replay::replay_schedule(file.recording, asked.until);
    tell(asked, recording, replayed);
    return exit_code_of(replayed.verdict);
  }
  if (const auto token = explored_token(recording)) {
    check_explored(options, ", or replay the order alone: --schedule-only");
    return replay_explored_command(recording, *token, options.json);
  }

  if (recording.begins_late()) {
    throw UsageError(
        asked.recording,
        fmt::format("begins with step {}: what came before has fallen off its ring, and "
                    "with it the weights; replay the order alone with --schedule-only, "
                    "or record the whole run: sluice train --record FILE",
                    recording.first_step()));
  }
  const RecordedRun run = read_run(recording.header().identity, asked.recording);
  const Plan plan = plan_of(run.config);
  const auto data = data_of(file, run.config);
  check_run(run.config, plan, *data);
  const auto identity = identity_of(run.config, *data);
  auto different = replay::compare_identities(run.identity, identity, options.allow);
  if (!allows(options, "plan")) {
    const auto of_plan = replay::compare_plans(recording, plan);
    different.insert(different.end(), of_plan.begin(), of_plan.end());
  }
  if (!different.empty()) refuse(asked, different);

  const ReplaySetup setup{file.recording, run.config, plan, data, options.threads.value_or(1)};
  replay::ReplayOptions of_replay;
  of_replay.until = asked.until;
  of_replay.then = options.then;
  const ReplayedRun replayed = replay_run(setup, of_replay);
  std::optional<replay::Investigation> investigation;
  if (replayed.replayer->divergence()) {
    investigation = replay::investigate(
        *replayed.replayer, of_replay,
        [&](const replay::ReplayOptions& again) { return replay_run(setup, again).replayer; });
  }
  tell(asked, recording, replayed, investigation,
       replay::compare_identities(run.identity, identity));
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
  app->add_option(
         "--until", options->until,
         "stop before a line of the log, a step or an action: seq=N, step=N,seq=N, step=N, or "
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
         "machine")
      ->excludes("--then");
  app->add_option("--threads", options->threads, "run it on N threads; the result is the same")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->excludes("--schedule-only");
  app->add_option(
         "--rank", options->rank,
         "show at the end how this rank stood; all of them are replayed, since what a rank "
         "gets the others make")
      ->type_name("N")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
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
      "Exit code: 0 same, or the recording ends; 1 diverged, failed or stuck as recorded, or "
      "failed "
      "live;\n2 refused.\n"
      "Example: replay on four threads what two threads recorded\n"
      "  sluice replay run.slrec --threads 4\n"
      "Example: how rank 2 came to the failure of last night\n"
      "  sluice replay night.slcase --rank 2 --until step=480,mb=3,stage=2,phase=B\n"
      "Example: under a debugger, into the action that fails\n"
      "  gdb -ex 'break sluice_stop_here' -ex run -ex 'x/s $rdi' --args \\\n"
      "    sluice replay night.slrec --until step=5,mb=3,stage=1,phase=F --then break");
  return {app, [options] { return or_refused(options->json, [&] { return run(*options); }); }};
}

}  // namespace sluice::tools
