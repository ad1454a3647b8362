#include "replay_outcome.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "errors.hpp"
#include "output.hpp"
#include "recorded_events.hpp"
#include "replay_report.hpp"

namespace sluice::tools {
namespace {

using replay::HandOver;
using replay::Verdict;

constexpr std::string_view nothing_before =
    "nothing stands before that point: nothing has been compared\n";

/// The command that shows the place of a divergence, or stops before a failure.
std::string closer(const ReplayAsked& asked, std::string_view until, bool schedule_only) {
  std::string command = fmt::format("sluice replay {} --until {}", asked.recording, until);
  if (!asked.allow.empty()) command += fmt::format(" --allow {}", fmt::join(asked.allow, ","));
  if (schedule_only) command += " --schedule-only";
  return command;
}

std::string closer(const ReplayAsked& asked, const replay::Divergence& divergence,
                   bool schedule_only) {
  const std::string until = fmt::format("step={},seq={}", divergence.step, divergence.seq);
  return fmt::format(
      "  to look closer: {}\n  what was recorded there: sluice show {} --seq {}..{}\n",
      closer(asked, until, schedule_only), asked.recording,
      std::max<std::int64_t>(1, divergence.seq - 10), divergence.seq + 5);
}

/// How a rank stood when the replay had come to its end, or to its point: its last lines there.
struct RankStood {
  RankId rank;
  std::int64_t step = 0;
  std::vector<NumberedEvent> lines;
};

std::optional<RankStood> rank_stood(const ReplayAsked& asked, const replay::Recording& recording,
                                    std::size_t steps, bool reached) {
  if (!asked.rank || steps == 0) return std::nullopt;
  constexpr std::ptrdiff_t shown = 8;
  Selection selection;
  selection.rank = RankId(*asked.rank);
  if (reached) selection.last_seq = asked.until->seq - 1;
  const auto step = recording.step(steps - 1);
  RankStood stood{*selection.rank, step.number, events_of(step, selection)};
  const auto count = static_cast<std::ptrdiff_t>(stood.lines.size());
  stood.lines.erase(stood.lines.begin(),
                    stood.lines.begin() + std::max<std::ptrdiff_t>(0, count - shown));
  return stood;
}

std::string text_of(const std::optional<RankStood>& stood) {
  if (!stood) return "";
  std::string text = fmt::format("rank {} in step {}{}\n", stood->rank.value, stood->step,
                                 stood->lines.empty() ? ": nothing yet" : ", its last lines:");
  for (const NumberedEvent& line : stood->lines) {
    text += fmt::format("  seq {:<14}{}\n", line.seq, replay::to_string(line.event));
  }
  return text;
}

void add(Json& json, const std::optional<RankStood>& stood) {
  if (!stood) return;
  Json& of_rank = json["rank"];
  of_rank["rank"] = stood->rank.value;
  of_rank["step"] = stood->step;
  of_rank["events"] = Json::array();
  for (const NumberedEvent& line : stood->lines) {
    of_rank["events"].push_back({{"seq", line.seq}, {"event", replay::to_string(line.event)}});
  }
}

void add(Json& json, const Action& action) {
  json["stage"] = action.stage.value;
  json["mb"] = action.mb.value;
  json["phase"] = std::string(1, letter(action.phase));
}

void add(Json& json, const replay::ReplayPoint& reached) {
  Json& at = json["reached"];
  at["step"] = reached.step;
  at["seq"] = reached.seq;
  add(at, reached.action);
}

void add(Json& json, const ReplayedRun::Failure& failed) {
  Json& failure = json["failure"];
  failure["step"] = failed.step;
  if (failed.action) add(failure, *failed.action);
  failure["message"] = failed.message;
}

std::string text_of(const ReplayAsked& asked, const ReplayedRun& replayed,
                    const ReplayedRun::Failure* failure) {
  const replay::Replayer& replayer = *replayed.replayer;
  const Verdict verdict = replayer.verdict();
  std::string text;
  if (replayer.actions() == 0 && replayer.reached()) {
    text += nothing_before;
  } else if (replayer.hashes() == 0) {
    text += "no hash has been compared: this is said of the order of actions alone\n";
  }
  if (asked.until && replayer.reached()) {
    text += fmt::format("stopped before {}\n", to_string(*asked.until));
    if (asked.then == HandOver::live) {
      text += fmt::format(
          "and went on live: the rest of it, and {} further steps, in the order of the "
          "configuration (a --policy is not asked)\n",
          replayed.live_steps);
    }
  }
  if (verdict == Verdict::recording_ends) text += "the recording ends here; the run had gone on\n";
  if (failure != nullptr && verdict != Verdict::recording_ends) {
    text += failure->message + '\n';
    // What happened live has no place in the recording.
    if (const auto& action = failure->action; action && verdict == Verdict::failed_as_recorded) {
      text += fmt::format(
          "to stop right before it: {}\n",
          closer(asked,
                 fmt::format("step={},mb={},stage={},phase={}", failure->step, action->mb.value,
                             action->stage.value, letter(action->phase)),
                 false));
    }
  }
  return text + coverage_of(replayer);
}

}  // namespace

void tell(const ReplayAsked& asked, const replay::Recording& recording, const ReplayedRun& replayed,
          const std::optional<replay::Investigation>& investigation,
          std::span<const replay::IdentityDifference> differences) {
  const replay::Replayer& replayer = *replayed.replayer;
  const auto stood = rank_stood(asked, recording, replayer.steps(), replayer.reached());
  // Those that are as recorded to their end.
  const std::size_t steps =
      replayer.steps() - (replayer.reached() || replayer.divergence() ? 1 : 0);
  // Told to stop, a step fails with that; a divergence tells its own.
  const bool stopped = replayer.reached() && asked.then == HandOver::stop;
  const auto* failure =
      replayed.failure && !stopped && !replayer.divergence() ? &*replayed.failure : nullptr;
  if (asked.json) {
    Json json;
    json["verdict"] = to_string(replayer.verdict());
    json["steps"] = steps;
    json["actions"] = replayer.actions();
    json["events"] = replayer.events();
    json["hashes"] = replayer.hashes();
    json["weights_hash"] = fmt::format("{:016x}", replayed.weights_hash);
    if (asked.until && replayer.reached()) add(json, *asked.until);
    if (replayed.live_steps > 0) json["live_steps"] = replayed.live_steps;
    if (failure != nullptr) add(json, *failure);
    if (investigation) json["divergence"] = json_of(*investigation);
    if (!differences.empty()) json["differences"] = json_of(differences);
    add(json, stood);
    write_result(to_text(json), std::nullopt);
    return;
  }
  std::string text = fmt::format("{}: {} steps, {} actions, {} events, {} hashes as recorded\n",
                                 to_string(replayer.verdict()), steps, replayer.actions(),
                                 replayer.events(), replayer.hashes());
  text += investigation ? to_string(*investigation) + identity_text(differences) +
                              closer(asked, investigation->divergence, false)
                        : text_of(asked, replayed, failure);
  text += text_of(stood);
  write_result(text + fmt::format("weights hash      {:016x}\n", replayed.weights_hash),
               std::nullopt);
}

void tell(const ReplayAsked& asked, const replay::Recording& recording,
          const replay::ScheduleReplay& replayed) {
  const bool reached = asked.until && !replayed.divergence;
  const auto stood = rank_stood(asked, recording, replayed.steps, reached);
  const std::size_t steps = replayed.steps - (reached || replayed.divergence ? 1 : 0);
  if (asked.json) {
    Json json;
    json["verdict"] = to_string(replayed.verdict);
    json["schedule_only"] = true;
    json["steps"] = steps;
    json["actions"] = replayed.actions;
    json["events"] = replayed.events;
    if (replayed.divergence) json["divergence"] = json_of(*replayed.divergence);
    add(json, stood);
    write_result(to_text(json), std::nullopt);
    return;
  }
  std::string text;
  if (replayed.divergence) {
    text = fmt::format("{}: {} actions as recorded\n{}\n{}{}", to_string(replayed.verdict),
                       replayed.actions, replayed.divergence->message,
                       circumstances_of(*replayed.divergence),
                       closer(asked, *replayed.divergence, true));
  } else {
    text = fmt::format(
        "{}: {} steps, {} actions, {} events as recorded\nschedule matched, values not compared: "
        "stages were stubs, hashes are the recorded ones\n",
        to_string(replayed.verdict), steps, replayed.actions, replayed.events);
    if (asked.until && replayed.actions == 0) text += nothing_before;
    if (asked.until) {
      text += fmt::format("stopped before {}\n", to_string(*asked.until));
    } else if (replayed.verdict == Verdict::recording_ends) {
      text += "the recording ends here; the run had gone on\n";
    } else if (!replayed.error.empty()) {
      text += replayed.error + '\n';
    }
  }
  write_result(text + text_of(stood), std::nullopt);
}

void refuse(const ReplayAsked& asked, std::span<const replay::IdentityDifference> differences) {
  if (asked.json) {
    Json json;
    json["verdict"] = to_string(Verdict::refused);
    json["differences"] = json_of(differences);
    write_result(to_text(json), std::nullopt);
  }
  std::vector<std::string> lines{
      error_line(asked.recording, "refused: the same numbers cannot be expected here")};
  for (const auto& difference : differences) {
    lines.push_back(fmt::format("  {}: recorded {}, here {}", difference.key, difference.recorded,
                                difference.found));
  }
  lines.push_back("  to replay all the same: --allow with these names, like --allow build,isa");
  lines.push_back(
      "  to replay the order of actions alone, which needs none of them: --schedule-only");
  throw Refused(std::move(lines));
}

}  // namespace sluice::tools
