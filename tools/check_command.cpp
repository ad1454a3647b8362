// sluice check: whether configuration and logs agree, and if not, which key to change.

#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/drawing.hpp>

#include "check_report.hpp"
#include "checked_config.hpp"
#include "checked_logs.hpp"
#include "errors.hpp"
#include "output.hpp"
#include "shape_options.hpp"
#include "subcommands.hpp"

namespace sluice::tools {
namespace {

struct CheckOptions {
  explicit CheckOptions(CLI::App& command) : shape(command) {}

  ShapeOptions shape;
  std::vector<std::string> inputs;
  std::vector<std::string> patterns;
  std::optional<std::filesystem::path> deepspeed;
  std::optional<std::filesystem::path> megatron;
  std::string devices;
  std::pair<std::string, std::string> map;  // of names and of the stage
  bool follow = false;
  std::string format = "text";
  bool json = false;
  std::optional<std::filesystem::path> output;

  bool draws() const { return format == "svg" || format == "html"; }
};

/// What CONFIG and LOG... are: a configuration is named as one.
struct Inputs {
  std::optional<std::filesystem::path> config;
  std::vector<std::string> logs;
};

Inputs sorted(const std::vector<std::string>& inputs) {
  Inputs result;
  for (const std::string& input : inputs) {
    if (!input.ends_with(".toml")) {
      result.logs.push_back(input);
    } else if (result.config) {
      throw UsageError(input, fmt::format("a second configuration beside {}; give one",
                                          result.config->string()));
    } else {
      result.config = input;
    }
  }
  return result;
}

int code_of(Verdict verdict) {
  return verdict == Verdict::pass ? clean : verdict == Verdict::rejected ? unusable : found;
}

/// What a log is held against, and what came of it.
struct Checked {
  std::optional<CheckedConfig> config;
  LogReport report;
  std::optional<LogPicture> picture;
  std::vector<Finding> warnings;
  std::string taken;  // from the log, to complete the configuration

  std::optional<Plan> plan() const { return config ? std::optional(config->plan) : std::nullopt; }
};

/// What a plan of the shape and schedule that a log alone shows would be warned of.
std::vector<Finding> warnings_of(const Inference& seen) {
  if (!seen.whole || seen.schedules.empty()) return {};
  const Guess& guess = seen.schedules.front();
  PlanConfig config;
  config.stages = seen.stages;
  config.microbatches = seen.microbatches;
  config.schedule = guess.schedule;
  if (guess.schedule == ScheduleName::drain) config.drain_depth = seen.drain_depth;
  if (guess.chunks > 1) config.chunks = guess.chunks;
  config.detail = Detail::metrics;
  return derive_plan(config).findings;
}

/// Prints what is found in a log that still grows as it is found; a line each, in JSON too.
CheckedLogs::Listener print_news(bool json) {
  return {[json](const LogFinding& finding) {
            write_result((json ? json_of(finding).dump() : finding.message) + '\n', std::nullopt);
          },
          [json](const LogReport& report) {
            const Json line{{"so_far", std::string(to_string(report.verdict))},
                            {"records", report.records},
                            {"steps", report.steps}};
            write_result(json ? line.dump() + '\n' : "so far " + verdict_of(report), std::nullopt);
          }};
}

Checked check_all(const CheckOptions& options, const Inputs& inputs, ConfigSources sources) {
  Checked checked;
  const GivenShape given = sources.any() ? given_shape(sources) : GivenShape();
  if (sources.any() && (given.whole || inputs.logs.empty()))
    checked.config = check_sources(sources);
  if (inputs.logs.empty()) return checked;
  const bool complete = sources.any() && !given.whole && given.more;
  if (complete && options.follow) {
    throw UsageError("--follow", "with half a shape: expected both -S and -M, or nothing but them");
  }
  LogSources logs{inputs.logs, options.patterns, std::nullopt};
  if (!options.map.first.empty())
    logs.map.emplace(std::vector{options.map.first, options.map.second});
  CheckedLogs reader(logs, complete);
  checked.report = options.follow
                       ? reader.follow(checked.plan(), given.known, print_news(options.json))
                       : reader.check(checked.plan(), given.known);
  auto& seen = checked.report.inference;
  if (complete && seen && seen->whole) {
    checked.taken = complete_shape(sources, given, *seen);
    checked.config = check_sources(sources);
    checked.report = reader.check(checked.plan(), {});
  } else if (complete && seen) {
    seen->doubts.emplace_back(
        "it takes a whole step, or both -S and -M, to hold it against the rest of what was given");
  }
  checked.picture = reader.picture();
  if (!checked.config && checked.report.verdict == Verdict::pass && seen) {
    checked.warnings = warnings_of(*seen);
  }
  return checked;
}

std::string json_text_of(const Checked& checked, bool one_line) {
  Json json = json_of(checked.report, checked.warnings);
  if (checked.config) {
    json["stages"] = checked.config->plan.stages;
    json["microbatches"] = checked.config->plan.microbatches;
    json["replicas"] = checked.config->replicas;
    if (!checked.config->settings.unused.empty()) json["unused"] = checked.config->settings.unused;
  }
  return one_line ? json.dump() + '\n' : to_text(json);
}

std::string plain_text_of(const Checked& checked) {
  std::string text;
  if (checked.config) text = text_of(*checked.config);
  if (!checked.taken.empty()) text += fmt::format("taken from the log: {}\n", checked.taken);
  return text + text_of(checked.report, checked.warnings, checked.picture.has_value());
}

/// With a picture of what is wrong, if anything is.
std::string text_with_picture(const Checked& checked, bool to_terminal) {
  const std::string text = plain_text_of(checked);
  if (checked.report.verdict == Verdict::pass || !checked.picture) return text;
  const std::string picture = checked.picture->text();
  if (picture.empty()) return text;
  return text + '\n' + (to_terminal && wants_colour() ? coloured(picture) : picture);
}

std::string drawing_of(const Checked& checked, const std::string& format) {
  if (!checked.picture) throw UsageError("--format", "a picture is drawn of a log: give one");
  const auto tracks = checked.picture->tracks();
  if (format == "html") return draw_html("sluice check", plain_text_of(checked), tracks);
  if (tracks.empty()) {
    throw UsageError("--format svg", "expected a log with records, of no more than 128 stages");
  }
  return draw_svg(tracks);
}

/// A picture in a file leaves standard output to the report.
void write_report(const Checked& checked, const CheckOptions& options) {
  const bool report = !options.draws() || options.output;
  if (report) {
    const auto file = options.draws() ? std::nullopt : options.output;
    write_result(options.json      ? json_text_of(checked, options.follow)
                 : options.draws() ? plain_text_of(checked)
                                   : text_with_picture(checked, !file),
                 file);
  }
  if (options.draws()) write_result(drawing_of(checked, options.format), options.output);
}

int run_checks(const CheckOptions& options) {
  const Inputs inputs = sorted(options.inputs);
  ConfigSources sources{inputs.config, options.deepspeed, options.megatron,
                        options.shape.overrides()};
  if (!options.devices.empty()) {
    sources.overrides.push_back({"devices.count", options.devices, "--devices"});
  }
  if (!sources.any() && inputs.logs.empty()) {
    throw UsageError("sluice check", "nothing to check: give a configuration, logs, or both");
  }
  if (options.follow && inputs.logs.size() != 1) {
    throw UsageError("sluice check",
                     fmt::format("--follow takes one log, found {}", inputs.logs.size()));
  }
  Checked checked = check_all(options, inputs, std::move(sources));
  if (checked.config) checked.warnings = checked.config->plan.findings;
  std::vector<std::filesystem::path> files(inputs.logs.begin(), inputs.logs.end());
  if (checked.config) {
    files.insert(files.end(), checked.config->files.begin(), checked.config->files.end());
  }
  for (const auto& settings : {options.deepspeed, options.megatron}) {
    if (settings) files.push_back(*settings);
  }
  keep_inputs(files, options.output);
  const LogReport& report = checked.report;
  if (report.verdict == Verdict::rejected) {
    std::vector<std::string> lines;
    for (const LogFinding& finding : report.findings) lines.push_back(finding.message);
    if (!options.json) throw UsageError(std::move(lines));
  }
  write_report(checked, options);
  return code_of(report.verdict);
}

/// Whoever asked for JSON gets a verdict whatever happens.
int run(const CheckOptions& options) {
  const auto reject = [&options](std::span<const Finding> findings) {
    if (options.json) write_result(to_text(rejected_json(findings)), std::nullopt);
  };
  const auto unreadable = [](std::string message) {
    Finding finding;
    finding.rule = "unreadable";
    finding.message = std::move(message);
    return finding;
  };
  try {
    return run_checks(options);
  } catch (const RejectedConfig& rejected) {
    reject(rejected.findings());
    throw;
  } catch (const UsageError& error) {
    std::vector<Finding> findings;
    for (const std::string& line : error.lines()) findings.push_back(unreadable(line));
    reject(findings);
    throw;
  } catch (const std::exception& error) {
    reject(std::vector{unreadable(error.what())});
    throw;
  }
}

}  // namespace

Subcommand check_command(CLI::App& sluice) {
  CLI::App* app =
      sluice.add_subcommand("check", "Hold logs against the timeline they should have been");
  const auto options = std::make_shared<CheckOptions>(*app);
  app->add_option(
      "INPUT", options->inputs,
      "CONFIG (ends in .toml; shape options override it) and any number of LOGs: text, JSON "
      "lines or CSV, plain, gzip or zstd, recordings, - for standard input. Without "
      "configuration a log is held against itself");
  app->add_option(
         "--pattern", options->patterns,
         "what a line of the logs looks like, when they are none of these: ... for any text, "
         "{mb} {stage} {seq} {step} {rank} {t} for numbers, {phase} {event} for words; the "
         "words fwd, bwd, start and end in it tell what it does not ask for. May be repeated")
      ->type_name("PATTERN")
      ->allow_extra_args(false);
  app->add_option("--deepspeed", options->deepspeed,
                  "settings of DeepSpeed (JSON) as configuration; -S and --devices say the rest")
      ->type_name("FILE");
  app->add_option("--megatron", options->megatron,
                  "arguments of Megatron, in a file or a shell script, as configuration")
      ->type_name("FILE");
  app->add_option("--devices", options->devices, "devices there are, for ranks times replicas")
      ->type_name("N");
  app->add_option(
         "--map", options->map,
         "the logs are Chrome traces (JSON, as PyTorch's profiler writes them): what the names "
         "of actions look like, and which field is the stage: 'name=F{mb}|B{mb}' stage=tid")
      ->type_name("NAME STAGE");
  app->add_flag("--follow", options->follow, "go on while the log grows, until it is removed");
  app->add_option("--format", options->format,
                  "text (default), json, or a picture of the step in which something is wrong, "
                  "under the plan's: svg or html")
      ->check(CLI::IsMember({"text", "json", "svg", "html"}))
      ->type_name("FORMAT");
  app->add_flag("--json", options->json, "the report as JSON");
  app->add_option("-o", options->output,
                  "write to FILE instead of standard output; beside a picture the report is still "
                  "printed")
      ->type_name("FILE");
  app->footer(
      "Example: the log of a run at drain depth 1, held against the one that was wanted\n"
      "  sluice plan -S 4 -M 8 -W 1 --format log | sluice check -S 4 -M 8 -W 3 -");
  return {app, [options] {
            options->json = options->json || options->format == "json";
            return run(*options);
          }};
}

}  // namespace sluice::tools
