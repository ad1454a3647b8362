#include "explore_token_replay.hpp"

#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include <sluice/finding.hpp>
#include <sluice/replay/diff.hpp>
#include <sluice/replay/pipeline_explorer.hpp>
#include <sluice/replay/recorder.hpp>
#include <sluice/replay/replayer.hpp>

#include "config.hpp"
#include "errors.hpp"
#include "output.hpp"
#include "replay_report.hpp"
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

replay::Outcome replayed(const replay::Token& token, const std::shared_ptr<Policy>& policy,
                         const replay::WrapDirector& wrap = {}) {
  try {
    return replay::replay_token(token, policy, wrap);
  } catch (const ConfigError& error) {
    throw UsageError(to_string(token),
                     fmt::format("its scenario has no plan here: {}", error.what()));
  } catch (const std::invalid_argument& error) {
    throw UsageError(to_string(token), error.what());
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

/// Runs the order of `token` with a recorder around what decides.
replay::Outcome recorded(const replay::Token& token, const std::filesystem::path& file,
                         const std::shared_ptr<Policy>& policy) {
  std::shared_ptr<replay::Recorder> recorder;
  replay::RecorderOptions options;
  Config config;
  config.plan = token.scenario.config;
  options.identity = describe_run(config, {{"explored", to_string(token)}});
  const replay::Outcome outcome =
      replayed(token, policy, [&](const Plan& plan, std::shared_ptr<Director> inner) {
        recorder =
            std::make_shared<replay::Recorder>(file.string(), plan, std::move(inner), options);
        return recorder;
      });
  recorder->close();
  return outcome;
}

/// A folder that goes with everything in it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "sluice-replay-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "no folder for temporary files");
    }
    path_ = pattern;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

replay::Verdict verdict_of(const replay::Outcome& outcome) {
  if (outcome.kind.empty()) return replay::Verdict::same;
  return outcome.kind == "stuck" ? replay::Verdict::stuck_as_recorded
                                 : replay::Verdict::failed_as_recorded;
}

}  // namespace

bool is_token(std::string_view text) { return text.starts_with("slc1:"); }

int replay_token_command(std::string_view text, bool json, const PlanConfig* with,
                         const std::shared_ptr<Policy>& policy) {
  replay::Token token = readable(text);
  if (with != nullptr) {
    bring_schedule(token, *with);
  } else if (token.own) {
    throw UsageError(
        std::string(text),
        "its schedule or policy is not in it, no token holds one: give the schedule, or the "
        "policy, "
        "with sluice explore SHAPE --token TOKEN, or call replay_token where it was explored");
  }
  const replay::Outcome outcome = replayed(token, policy);
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

void record_token(const replay::Token& token, const std::filesystem::path& file,
                  const std::shared_ptr<Policy>& policy) {
  if (token.world == replay::World::model) {
    throw UsageError(
        "--record",
        "exhaustive goes through the states of the plan, and nothing runs that could be "
        "recorded; the token repeats it");
  }
  recorded(token, file, policy);
}

std::optional<std::string> explored_token(const replay::Recording& recording) {
  for (const auto& [key, value] : identity_in(recording.header().identity)) {
    if (key == "explored") return value;
  }
  return std::nullopt;
}

int replay_explored_command(const replay::Recording& recording, const std::string& text,
                            bool json) {
  const replay::Token token = readable(text);
  if (token.own) {
    throw UsageError(
        recording.file(),
        fmt::format(
            "an explored run whose schedule or policy is not in it: replay the order of its "
            "actions with sluice replay {} --schedule-only, or run it again where it was "
            "explored, with sluice explore SHAPE --token {}",
            recording.file(), text));
  }
  const ScratchFolder folder;
  const auto again = folder.path() / "again.slrec";
  const replay::Outcome outcome = recorded(token, again, nullptr);
  const auto found = replay::Recording::open(again.string());
  const replay::RecordingDiff compared = replay::diff(recording, *found);
  const auto& first = compared.actions ? compared.actions : compared.tensors;
  const replay::Verdict verdict =
      compared.verdict == replay::Verdict::same ? verdict_of(outcome) : compared.verdict;
  if (json) {
    Json result;
    result["verdict"] = to_string(verdict);
    result["explored"] = text;
    result["scenario"] = to_string(token.scenario);
    result["actions"] = compared.of_actions;
    result["events"] = compared.events;
    if (!outcome.kind.empty()) result["kind"] = outcome.kind;
    if (!outcome.text.empty()) result["message"] = outcome.text;
    if (first) result["divergence"] = json_of(*first);
    write_result(to_text(result), std::nullopt);
  } else {
    std::string result = fmt::format(
        "{}: an explored run, {}\nits order was run again from {}: {} actions, {} events as "
        "recorded\n",
        to_string(verdict), to_string(token.scenario), text, compared.of_actions, compared.events);
    if (first) result += first->message + '\n' + circumstances_of(*first);
    result += outcome.kind.empty() ? "nothing is wrong in this order\n" : outcome.text + '\n';
    write_result(result, std::nullopt);
  }
  return exit_code_of(verdict);
}

}  // namespace sluice::tools
