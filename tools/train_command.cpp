// sluice train: trains a model as configured, and says how that compares with what was derived.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/kernels/fashion_mnist.hpp>
#include <sluice/policy.hpp>
#include <sluice/replay/recording_error.hpp>
#include <sluice/step_error.hpp>

#include "config.hpp"
#include "errors.hpp"
#include "measured.hpp"
#include "output.hpp"
#include "plan_report.hpp"
#include "policy_child.hpp"
#include "progress.hpp"
#include "run_log.hpp"
#include "run_recording.hpp"
#include "shape_options.hpp"
#include "subcommands.hpp"
#include "training.hpp"

namespace sluice::tools {
namespace {

struct TrainOptions {
  explicit TrainOptions(CLI::App& command) : shape(command) {}

  std::filesystem::path config;
  ShapeOptions shape;
  std::optional<std::filesystem::path> recording;
  std::string record_mode;
  std::optional<std::int64_t> payload;
  bool overwrite = false;
  std::optional<std::filesystem::path> log;
  bool json = false;
};

/// What a run came to.
struct Outcome {
  std::int64_t steps = 0;  ///< that were applied
  double seconds = 0;
  double loss = 0;  ///< of the last of them
  MeasuredSteps measured;
  std::string failure;                  ///< of the step behind them; empty when all went well
  std::optional<Action> failed_action;  ///< where that is known
  std::string last_good;                ///< what had ended well before it; may be empty
  std::optional<double> test_accuracy;
  std::uint64_t weights_hash = 0;

  double samples_per_second(const Config& config) const {
    return seconds > 0 ? static_cast<double>(steps * config.batch->global) / seconds : 0;
  }
};

std::vector<Override> overrides_of(const TrainOptions& options) {
  std::vector<Override> overrides;
  if (options.recording) {
    overrides.push_back({"record.file", options.recording->string(), "--record"});
  }
  if (!options.record_mode.empty()) {
    overrides.push_back({"record.mode", options.record_mode, "--record-mode"});
  }
  if (options.payload) {
    overrides.push_back({"record.payload", std::to_string(*options.payload), "--payload"});
  }
  if (options.overwrite) overrides.push_back({"record.overwrite", "true", "--overwrite"});
  return options.shape.overrides(std::move(overrides));
}

std::string progress_of(const Outcome& outcome, const Config& config, const Plan& plan,
                        std::int64_t steps) {
  const MeasuredStep& last = outcome.measured.last();
  return fmt::format(
      "step {}/{}  loss {:.4f}  {:.0f} samples/s  bubble {:.0f}% derived, {:.0f}% "
      "measured  held {}",
      outcome.steps, steps, outcome.loss, outcome.samples_per_second(config),
      100 * plan.bubble_of_makespan, 100 * last.bubble, fmt::join(last.peak_held, ","));
}

/// Who decides while the run goes on.
std::shared_ptr<Director> make_director(const Config& config, const Plan& plan) {
  if (config.policy && config.policy->at_run_time) {
    return std::make_shared<LiveDirector>(std::make_shared<PolicyChild>(config.policy->command));
  }
  return std::make_shared<LiveDirector>(policy_for(plan));
}

bool is_record(const Event& event) {
  return event.kind == Event::Kind::enter || event.kind == Event::Kind::exit;
}

std::int64_t records_in(std::span<const Event> events) {
  return std::count_if(events.begin(), events.end(), is_record);
}

/// The last action that ended before the first one that failed, with its seq in the log.
std::string last_good(std::span<const Event> events, std::int64_t records_before) {
  std::string text;
  std::int64_t seq = records_before;
  for (const Event& event : events) {
    if (event.kind == Event::Kind::failed) break;
    if (!is_record(event)) continue;
    ++seq;
    if (event.kind != Event::Kind::exit) continue;
    text = fmt::format("seq={:04} exit of {}", seq, to_string(event.action));
  }
  return text;
}

/// What to change when a step has failed for its numbers.
std::string advice_on(const StepError& error, const Config& config) {
  try {
    if (error.cause()) std::rethrow_exception(error.cause());
  } catch (const std::domain_error&) {
    return fmt::format("; lower train.learning_rate = {}{}", config.train.learning_rate,
                       config.train.check_finite
                           ? ""
                           : ", or set train.check_finite = true to see where it begins");
  } catch (...) {
  }
  return "";
}

/// What ended the log, and with it the run: without all of its log it would not be what was asked for.
std::string log_failure(const UsageError& error) {
  std::string text = error.what();
  constexpr std::string_view label = ": error: ";
  if (const auto at = text.find(label); at != std::string::npos)
    text.replace(at, label.size(), ": ");
  return "the log ends here: " + text;
}

Outcome run_steps(Training& training, const Config& config, const Plan& plan, RunLog* log) {
  using Clock = std::chrono::steady_clock;
  Outcome outcome;
  Progress progress;
  std::int64_t records = 0;  // of the log, whether or not one is written
  while (outcome.steps < training.steps() && outcome.failure.empty()) {
    const auto begin = Clock::now();
    try {
      outcome.loss = training.step().loss;
      outcome.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
      outcome.measured.add(measure(training.events(), training.metrics()));
      ++outcome.steps;
      records += records_in(training.events());
    } catch (const StepError& error) {
      outcome.failure = error.what() + advice_on(error, config);
      outcome.failed_action = error.action();
      outcome.last_good = last_good(training.events(), records);
    } catch (const replay::RecordingError& error) {
      outcome.failure = error.what();  // before the step, of which nothing has run
    }
    try {
      if (log != nullptr) log->write(training.events());
    } catch (const UsageError& error) {  // behind the step, which has been applied
      if (outcome.failure.empty()) outcome.failure = log_failure(error);
    }
    if (progress.due() && !outcome.measured.empty())
      progress.show(progress_of(outcome, config, plan, training.steps()));
  }
  return outcome;
}

Json json_of(const Outcome& outcome, const Config& config, const Plan& plan,
             const std::optional<std::string>& recording) {
  Json json;
  json["steps"] = outcome.steps;
  json["loss"] = outcome.loss;
  if (outcome.test_accuracy) json["test_accuracy"] = *outcome.test_accuracy;
  json["weights_hash"] = fmt::format("{:016x}", outcome.weights_hash);
  json["samples_per_second"] = outcome.samples_per_second(config);
  json["bubble"]["derived"] = plan.bubble_of_makespan;
  if (!outcome.measured.empty()) json["bubble"]["measured"] = outcome.measured.median().bubble;
  if (recording) json["recording"] = *recording;
  if (!outcome.failure.empty()) {
    Json& error = json["error"];
    error["step"] = outcome.steps;
    if (outcome.failed_action) {
      error["stage"] = outcome.failed_action->stage.value;
      error["mb"] = outcome.failed_action->mb.value;
      error["phase"] = std::string(1, letter(outcome.failed_action->phase));
    }
    error["message"] = outcome.failure;
    if (!outcome.last_good.empty()) error["last_good"] = outcome.last_good;
  }
  return json;
}

std::string text_of(const Outcome& outcome, const Config& config, const Plan& plan,
                    const TrainOptions& options, const std::optional<std::string>& recording) {
  std::string text = "\n";
  const auto line = [&text](const char* what, const std::string& value) {
    text += fmt::format("{:<18}{}\n", what, value);
  };
  const auto picture = [](const std::string& drawn) {
    return wants_colour() ? coloured(drawn) : drawn;
  };
  if (!outcome.measured.empty()) {
    const MeasuredStep& median = outcome.measured.median();
    text += fmt::format("measured: step {}, {:.2f} ms, the median of the last {} steps\n",
                        median.step, median.timeline.makespan.units(), outcome.measured.size());
    text += picture(picture_of(median, plan)) + '\n';
    line("bubble", fmt::format("{:.1f}% of the makespan derived, {:.1f}% measured: {} ranks shared "
                               "{} threads",
                               100 * plan.bubble_of_makespan, 100 * median.bubble, plan.ranks,
                               config.train.threads));
    line("held", fmt::format("{} at most in that step", fmt::join(median.peak_held, ",")));
  }
  line("steps",
       fmt::format("{} of {} samples in {:.2f} s: {:.0f} samples/s", outcome.steps,
                   config.batch->global, outcome.seconds, outcome.samples_per_second(config)));
  line("loss", fmt::format("{:.4f} in the last step", outcome.loss));
  if (outcome.test_accuracy) {
    line("test accuracy", fmt::format("{:.2f}%", 100 * *outcome.test_accuracy));
  }
  line("weights hash", fmt::format("{:016x}", outcome.weights_hash));
  if (recording) line("recording", *recording);
  if (options.log) line("log", options.log->string());
  return text;
}

/// Log and recording overwrite neither what the run is made from nor each other.
void keep_apart(const TrainOptions& options, const Config& config) {
  if (options.log && options.log->empty()) {
    throw UsageError("--log", "expected a file, or a folder for one log a stage");
  }
  keep_inputs(config.files, options.log, "--log");
  keep_inputs(config.files, config.record.file, "--record");
  if (!options.log || !config.record.file) return;
  const auto where = [](const std::filesystem::path& path) {
    return std::filesystem::weakly_canonical(path);
  };
  if (where(*options.log) == where(*config.record.file)) {
    throw UsageError("--log", fmt::format("{} is the recording too; expected another file",
                                          options.log->string()));
  }
}

/// A run is worth more than its report: one that nobody can read ends nothing. Whether it was written.
bool report(std::string_view text) {
  try {
    write_result(text, std::nullopt);
    return true;
  } catch (const UsageError& error) {
    say(fmt::format("{}\n", error.what()));
    return false;
  }
}

int run(const TrainOptions& options) {
  const Config config = read_config(options.config, overrides_of(options));
  require_training(config);
  keep_apart(options, config);
  const Plan plan = plan_of(config);
  const auto data = std::make_shared<const kernels::DataSet>(
      kernels::load_fashion_mnist(kernels::Subset::train, config.train.data));
  const auto test_data = std::make_shared<const kernels::DataSet>(
      kernels::load_fashion_mnist(kernels::Subset::test, config.train.data));
  check_run(config, plan, *data);

  // First what may be refused, so that a run that does not start overwrites neither log nor recording.
  std::shared_ptr<Director> director = make_director(config, plan);
  std::unique_ptr<RunLog> log;
  if (options.log) log = std::make_unique<RunLog>(*options.log, plan.stages);
  RunRecording recording(config, options.config, plan, *data, std::move(director));
  if (log) log->write({});  // an old one makes way now
  if (!options.json) {
    std::string picture = picture_of(plan, scale_of(plan));
    if (wants_colour()) picture = coloured(picture);
    report(fmt::format("{}{}\nderived:\n{}", title_of(plan), findings_of(plan), picture));
  }

  Training training(config, plan, data, config.train.threads, recording.director());
  Outcome outcome = run_steps(training, config, plan, log.get());
  recording.end(outcome.failure);
  outcome.weights_hash = training.weights_hash();
  if (outcome.failure.empty()) outcome.test_accuracy = training.accuracy(test_data);
  const bool told =
      report(options.json ? to_text(json_of(outcome, config, plan, recording.kept()))
                          : text_of(outcome, config, plan, options, recording.kept()));
  if (outcome.failure.empty()) return told ? clean : unusable;
  say(error_line("sluice train", fmt::format("step {}: {}", outcome.steps, outcome.failure)) +
      '\n');
  if (!outcome.last_good.empty()) say(fmt::format("last good: {}\n", outcome.last_good));
  return found;
}

}  // namespace

Subcommand train_command(CLI::App& sluice) {
  CLI::App* app = sluice.add_subcommand("train", "Train a model, record the run, write its log");
  const auto options = std::make_shared<TrainOptions>(*app);
  app->add_option("CONFIG", options->config, "configuration (TOML); shape options override it")
      ->required();
  app->add_option("--record", options->recording, "record the run into FILE, for sluice replay")
      ->type_name("FILE");
  app->add_option("--record-mode", options->record_mode,
                  "off; ring: the newest events (kept when the run fails, the default without "
                  "--record); full: every action; verify: and hashes of all outputs and weights")
      ->type_name("MODE");
  app->add_option("--payload", options->payload,
                  "in a ring that holds the last K steps at least: what each of their actions was "
                  "given, for sluice show --input; 0: what a failing action was given")
      ->type_name("K");
  app->add_flag("--overwrite", options->overwrite, "replace a recording that exists");
  app->add_option("--log", options->log, "write the text log; into a folder: one log a stage")
      ->type_name("FILE|FOLDER");
  app->add_flag("--json", options->json, "print one JSON object instead of text");
  app->footer(
      "Example: one epoch, recorded, its log written\n"
      "  sluice train examples/fashion-mnist.toml --set train.epochs=1 --record run.slrec "
      "--log run.log\n"
      "A failure to look at: stage 1 throws in the forward of microbatch 3 of step 5\n"
      "  sluice train examples/fashion-mnist.toml --set train.fail=1F3 --set train.fail_step=5 "
      "--record failed.slrec");
  return {app, [options] { return run(*options); }};
}

}  // namespace sluice::tools
