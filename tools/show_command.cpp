// sluice show: what is in a recording, without running anything.

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/chrome_trace.hpp>
#include <sluice/drawing.hpp>
#include <sluice/replay/divergence.hpp>
#include <sluice/replay/recorded_plan.hpp>

#include "config.hpp"
#include "errors.hpp"
#include "explore_token_replay.hpp"
#include "output.hpp"
#include "recorded_events.hpp"
#include "recorded_values.hpp"
#include "recording_file.hpp"
#include "recording_report.hpp"
#include "replay_report.hpp"
#include "run_identity.hpp"
#include "subcommands.hpp"

namespace sluice::tools {
namespace {

struct ShowOptions {
  std::filesystem::path recording;
  std::optional<std::int64_t> step;
  std::optional<int> mb;
  std::optional<int> stage;
  std::optional<int> rank;
  std::optional<std::string> seq;
  std::string input;   ///< of this action
  std::string target;  ///< the same
  std::string format = "text";
  bool json = false;
  std::optional<std::filesystem::path> output;
};

/// `40..60`, or one number.
void read_seq(const std::string& text, Selection& selection) {
  const auto number = [&text](std::string_view part) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value < 1) {
      throw UsageError("--seq", fmt::format("{}: expected one number, or two like 40..60", text));
    }
    return value;
  };
  const std::string_view whole(text);
  const auto dots = whole.find("..");
  selection.first_seq = number(whole.substr(0, dots));
  selection.last_seq =
      dots == std::string_view::npos ? selection.first_seq : number(whole.substr(dots + 2));
  if (*selection.last_seq < *selection.first_seq) {
    throw UsageError("--seq", fmt::format("{}: expected the smaller number first, like {}..{}",
                                          text, *selection.last_seq, *selection.first_seq));
  }
}

/// What there is to show, with the parts that every format needs.
struct Shown {
  const replay::Recording& recording;
  std::vector<std::string> faults;
  replay::Identity identity;
  std::optional<Config> config;  ///< of sluice train; runs of other programs have none
  Plan plan;
  Selection selection;
  /// The one that is drawn: the one asked for, else the one with --seq in it, else the last.
  std::optional<replay::RecordedStep> step;
};

std::string_view name_of(replay::RecordingMode mode) {
  switch (mode) {
    case replay::RecordingMode::full: return "full";
    case replay::RecordingMode::verify: return "verify";
    case replay::RecordingMode::ring: return "ring";
  }
  return "";
}

std::optional<replay::RecordedStep> find_step(const replay::Recording& recording,
                                              const Selection& selection) {
  std::optional<replay::RecordedStep> chosen;
  for (std::size_t i = 0; i < recording.steps(); ++i) {
    const bool last = i + 1 == recording.steps();
    if (!selection.step && !selection.first_seq && !last) continue;
    auto step = recording.step(i);
    if (selection.step && step.number != *selection.step) continue;
    if (!selection.step && selection.first_seq && step.first_seq > *selection.first_seq) break;
    chosen = std::move(step);
  }
  if (selection.step && !chosen) {
    const std::int64_t first = recording.first_step();
    throw UsageError(
        "--step", fmt::format("{}: expected {} to {}, the steps of the recording", *selection.step,
                              first, first + static_cast<std::int64_t>(recording.steps()) - 1));
  }
  return chosen;
}

std::string text_of(const Shown& shown, const ShowOptions& options) {
  const replay::RecordingHeader& header = shown.recording.header();
  std::string text =
      fmt::format("{}: {} steps of {} stages on {} ranks, {} microbatches; mode {}{}\n",
                  options.recording.string(), shown.recording.steps(), header.stages, header.ranks,
                  shown.plan.microbatches, name_of(header.mode),
                  shown.recording.closed() ? "" : "; its run did not end in good order");
  if (shown.recording.begins_late()) {
    text += fmt::format("begins with step {}: what came before has fallen off its ring{}\n",
                        shown.recording.first_step(),
                        shown.recording.anchors().empty()
                            ? ", the state to start from as well: only its order can be replayed"
                            : "");
  }
  for (const std::string& fault : shown.faults) text += fmt::format("damage: {}\n", fault);
  text += '\n';
  for (const auto& [key, value] : shown.identity) text += fmt::format("{:<18}{}\n", key, value);
  text += '\n' + verdicts_text(shown.recording);
  if (!shown.step) return text;

  const auto events = events_of(*shown.step, shown.selection);
  if (shown.selection.of_events()) {
    text += shown.selection.mb
                ? fmt::format("\nmicrobatch {} in step {}: {}\n", shown.selection.mb->value,
                              shown.step->number, life_in(*shown.step, *shown.selection.mb))
                : fmt::format("\nstep {}:\n", shown.step->number);
    for (const NumberedEvent& numbered : events) {
      text += fmt::format("seq {:<14}{}\n", numbered.seq, replay::to_string(numbered.event));
    }
    return text + values_text(*shown.step, shown.selection);
  }

  text += fmt::format("\nthe order of step {}, under the planned costs:\n", shown.step->number);
  if (shown.plan.stages == 0) return text + "not known: it ends before every rank had a plan\n";
  std::string picture = order_picture(*shown.step, shown.plan);
  if (!options.output && wants_colour()) picture = coloured(picture);
  return text + picture + picks_text(unplanned_picks(shown.recording, *shown.step)) +
         values_text(*shown.step, shown.selection);
}

std::string log_of(const Shown& shown) {
  std::string text;
  for (std::size_t i = 0; i < shown.recording.steps(); ++i) {
    for (const NumberedEvent& numbered : events_of(shown.recording.step(i), shown.selection)) {
      text += line_of(numbered) + '\n';
    }
  }
  return text;
}

/// The recorded order of the step over the planned one, both under the planned costs.
std::string drawing_of(const Shown& shown, const std::string& format) {
  if (!shown.step || shown.plan.stages == 0) {
    throw UsageError(
        shown.recording.file(),
        fmt::format("holds no step that could be drawn as {}; see --format log", format));
  }
  const Timeline recorded = timeline_of(*shown.step, shown.plan);
  Track planned;
  planned.heading = "planned";
  planned.actions = shown.plan.timeline.actions;
  planned.stages = shown.plan.stages;
  planned.span = std::max(recorded.makespan, shown.plan.timeline.makespan);
  Track ran = planned;
  ran.heading = fmt::format("step {} as recorded, under the planned costs", shown.step->number);
  ran.actions = recorded.actions;
  if (format == "svg") return draw_svg({planned, ran});
  if (format == "trace") return chrome_trace({planned, ran});
  return draw_html("sluice show", verdicts_text(shown.recording), {planned, ran});
}

Json json_of(const Shown& shown) {
  const replay::RecordingHeader& header = shown.recording.header();
  Json json;
  json["recording"] = shown.recording.file();
  json["stages"] = header.stages;
  json["ranks"] = header.ranks;
  json["microbatches"] = shown.plan.microbatches;
  json["mode"] = name_of(header.mode);
  json["closed"] = shown.recording.closed();
  json["begins_late"] = shown.recording.begins_late();
  json["damage"] = shown.faults;
  for (const auto& [key, value] : shown.identity) json["identity"][key] = value;
  if (shown.config) json["config"] = to_toml(*shown.config);
  json["steps"] = Json::array();
  for (std::size_t i = 0; i < shown.recording.steps(); ++i) {
    const auto recorded = shown.recording.step(i);
    const auto events = events_of(recorded, shown.selection);
    if (shown.selection.step && *shown.selection.step != recorded.number) continue;
    if (shown.selection.of_events() && events.empty()) continue;
    Json step;
    step["step"] = recorded.number;
    step["complete"] = recorded.complete;
    if (!recorded.error.empty()) step["error"] = recorded.error;
    if (recorded.result) step["loss"] = recorded.result->loss;
    step["unplanned"] = Json::array();
    for (const UnplannedPick& pick : unplanned_picks(shown.recording, recorded)) {
      step["unplanned"].push_back({{"seq", pick.seq},
                                   {"rank", pick.rank.value},
                                   {"action", to_string(pick.action)},
                                   {"planned", to_string(pick.planned)}});
    }
    step["events"] = Json::array();
    for (const NumberedEvent& numbered : events) {
      step["events"].push_back(
          {{"seq", numbered.seq}, {"event", replay::to_string(numbered.event)}});
    }
    step["values"] = values_json(recorded, shown.selection);
    json["steps"].push_back(std::move(step));
  }
  return json;
}

/// Of the value that was asked for.
std::string bytes_of(const Shown& shown, const ShowOptions& options) {
  const bool input = !options.input.empty();
  const std::string option = input ? "--input" : "--target";
  const std::string& name = input ? options.input : options.target;
  const auto action = parse_action(name);
  if (!action) {
    throw UsageError(option, fmt::format("{}: expected an action, like 1F3: stage 1, forward, "
                                         "microbatch 3",
                                         name));
  }
  if (!options.output) {
    throw UsageError(option, "expected -o FILE besides it, for the bytes");
  }
  if (!shown.step) throw UsageError(shown.recording.file(), "holds no step");
  return value_of(*shown.step, *action,
                  input ? InboundValue::Role::input : InboundValue::Role::target, option);
}

int run(const ShowOptions& options) {
  const RecordingFile file = open_recording(options.recording);
  keep_inputs({{options.recording}}, options.output);
  const replay::Recording& recording = *file.recording;
  const std::string& identity = recording.header().identity;
  std::optional<Config> config;
  if (describes_run(identity) && !explored_token(recording)) {
    config = read_run(identity, options.recording.string()).config;
  }
  Selection selection;
  selection.step = options.step;
  if (options.seq) read_seq(*options.seq, selection);
  if (options.mb) selection.mb = MicrobatchId(*options.mb);
  if (options.stage) selection.stage = StageId(*options.stage);
  if (options.rank) selection.rank = RankId(*options.rank);
  auto step = find_step(recording, selection);
  const auto index = static_cast<std::size_t>(step ? step->number - recording.first_step() : 0);
  Plan plan = config ? plan_of(*config) : replay::recorded_plan(recording, index).value_or(Plan());
  if (options.mb && plan.microbatches > 0 && *options.mb >= plan.microbatches) {
    throw UsageError("--mb",
                     fmt::format("{}: expected 0 to {}", *options.mb, plan.microbatches - 1));
  }
  check_rank(recording, options.rank);
  const int stages = recording.header().stages;
  if (options.stage && *options.stage >= stages) {
    throw UsageError("--stage", fmt::format("{}: expected 0 to {}", *options.stage, stages - 1));
  }
  const Shown shown{recording,       file.faults, identity_in(identity), std::move(config),
                    std::move(plan), selection,   std::move(step)};
  const bool value = !options.input.empty() || !options.target.empty();
  write_result(value                                      ? bytes_of(shown, options)
               : options.json || options.format == "json" ? to_text(json_of(shown))
               : options.format == "log"                  ? log_of(shown)
               : options.format != "text"                 ? drawing_of(shown, options.format)
                                                          : text_of(shown, options),
               options.output);
  return clean;
}

}  // namespace

Subcommand show_command(CLI::App& sluice) {
  CLI::App* app = sluice.add_subcommand("show", "Look into a recording without running it");
  const auto options = std::make_shared<ShowOptions>();
  app->add_option("RECORDING", options->recording,
                  "a recording, of sluice train or of your own program, or a case file")
      ->required();
  app->add_option("--step", options->step, "this step; default: the last one")->type_name("N");
  app->add_option("--mb", options->mb, "the life of one microbatch")
      ->type_name("N")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  app->add_option("--stage", options->stage, "what one stage did")
      ->type_name("N")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  app->add_option("--rank", options->rank, "what one rank did, with all its stages")
      ->type_name("N")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  app->add_option("--seq", options->seq, "these lines of the text log")->type_name("A..B");
  app->add_option("--input", options->input,
                  "what this action was given, into -o FILE (of sluice train: .npy)")
      ->type_name("ACTION");
  app->add_option("--target", options->target,
                  "the target of this action's microbatch, the same way")
      ->type_name("ACTION")
      ->excludes("--input");
  app->add_option("--format", options->format,
                  "text (default), log, json, svg or html: a picture, or trace: for Perfetto")
      ->check(CLI::IsMember({"text", "log", "json", "svg", "html", "trace"}))
      ->type_name("FORMAT");
  app->add_flag("--json", options->json, "the same as --format json");
  app->add_option("-o", options->output, "write to FILE instead of standard output")
      ->type_name("FILE");
  app->footer(
      "Example: what microbatch 3 went through in the last step\n"
      "  sluice show run.slrec --mb 3\n"
      "What the action that failed in the last step was given, for numpy.load\n"
      "  sluice show failed.slrec --input 1F3 -o input.npy");
  return {app, [options] {
            const bool json = options->json || options->format == "json";
            return or_refused(json, [&] { return run(*options); });
          }};
}

}  // namespace sluice::tools
