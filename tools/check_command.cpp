// sluice check: whether configuration and logs agree, and if not, which key to change.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/log_check.hpp>
#include <sluice/log_pattern.hpp>

#include "checked_config.hpp"
#include "errors.hpp"
#include "log_input.hpp"
#include "output.hpp"
#include "shape_options.hpp"
#include "subcommands.hpp"
#include "trace_log.hpp"

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
  bool json = false;
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

Json json_of(const LogFinding& finding) {
  Json json = tools::json_of(static_cast<const Finding&>(finding));
  if (finding.line > 0) {
    json["log"] = finding.log;
    json["line"] = finding.line;
  }
  if (!finding.last_good.empty()) json["last_good"] = finding.last_good;
  if (finding.count > 1) json["count"] = finding.count;
  return json;
}

Json json_of(const Inference& inference) {
  Json json;
  json["stages"] = inference.stages;
  json["microbatches"] = inference.microbatches;
  json["drain_depth"] = inference.drain_depth;
  json["chunks"] = inference.chunks;
  json["schedules"] = Json::array();
  for (const Guess& guess : inference.schedules) {
    json["schedules"].push_back(std::string(to_string(guess.schedule)));
  }
  json["sure"] = inference.sure();
  json["doubts"] = inference.doubts;
  return json;
}

Json json_of(const LogReport& report, const std::optional<Plan>& plan) {
  Json json;
  json["verdict"] = std::string(to_string(report.verdict));
  json["records"] = report.records;
  json["steps"] = report.steps;
  Json findings = Json::array();
  for (const LogFinding& finding : report.findings) findings.push_back(json_of(finding));
  if (plan) {
    for (const Finding& finding : plan->findings) findings.push_back(tools::json_of(finding));
  }
  json["findings"] = std::move(findings);
  if (report.inference && report.inference->stages > 0)
    json["inferred"] = json_of(*report.inference);
  return json;
}

std::string text_of(const LogReport& report, const std::optional<Plan>& plan, bool has_log) {
  std::string text;
  for (const LogFinding& finding : report.findings) text += finding.message + '\n';
  if (plan) {
    for (const Finding& finding : plan->findings) {
      text += fmt::format("warning: {}: {}\n", finding.rule, finding.message);
    }
  }
  if (!has_log) return text + fmt::format("{}: the configuration\n", to_string(report.verdict));
  if (report.inference && report.inference->stages > 0) {
    text += fmt::format("the log says: {}{}\n", to_string(*report.inference),
                        report.inference->sure() ? ", for certain" : "");
    for (const std::string& doubt : report.inference->doubts)
      text += fmt::format("  but {}\n", doubt);
  }
  return text + fmt::format("{}: {} records, {} step{}\n", to_string(report.verdict),
                            report.records, report.steps, report.steps == 1 ? "" : "s");
}

/// Prints the findings of a log that still grows, each rule once.
void print_new(const LogCheck& check, std::set<std::string>& printed) {
  for (const LogFinding& finding : check.so_far().findings) {
    if (printed.insert(finding.rule).second) write_result(finding.message + '\n', std::nullopt);
  }
}

/// Reads lines that look like one of the patterns.
LogReader::ForeignLine by_patterns(const std::vector<std::string>& texts) {
  std::vector<LogPattern> patterns;
  try {
    for (const std::string& text : texts) patterns.emplace_back(text);
  } catch (const std::invalid_argument& error) {
    throw UsageError("sluice check", error.what());
  }
  return [patterns](std::string_view line, LogLine& out) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const LogPattern& pattern) {
      LogLine read = out;
      if (!pattern.match(line, read)) return false;
      out = read;
      return true;
    });
  };
}

struct Checked {
  LogReport report;
  std::string picture;
};

Checked check_logs(const std::vector<std::string>& paths, const std::vector<std::string>& patterns,
                   const std::optional<Plan>& plan, bool follow) {
  LogCheck check(plan);
  const LogReader::ForeignLine foreign = by_patterns(patterns);
  std::vector<LogInput> inputs;
  for (const std::string& path : paths) inputs.emplace_back(path);
  for (const LogInput& input : inputs) {
    if (patterns.empty()) {
      check.add(input.name());
    } else {
      check.add(input.name(), foreign);
    }
  }
  check.keep_picture();
  std::string bytes;
  std::set<std::string> printed;
  while (const auto next = check.hungry()) {
    LogInput& input = inputs[static_cast<std::size_t>(*next)];
    const bool more = input.read(bytes);
    if (more) check.feed(*next, bytes);
    if (follow) print_new(check, printed);
    if (more) continue;
    if (!follow || !input.exists()) {
      check.end(*next);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  Checked checked;
  checked.report = check.finish();
  checked.picture = check.picture(checked.report);
  return checked;
}

/// Traces are read whole: their records are ordered by cause, which needs all of them.
Checked check_traces(const std::vector<std::string>& paths, const TraceMap& map,
                     const std::optional<Plan>& plan) {
  LogCheck check(plan);
  check.keep_picture();
  std::vector<std::string> texts;
  for (const std::string& path : paths) {
    LogInput input(path);
    std::string json;
    std::string bytes;
    while (input.read(bytes)) json += bytes;
    texts.push_back(log_of_trace(json, input.name(), map));
    check.add(input.name());
  }
  for (std::size_t i = 0; i < texts.size(); ++i) check.feed(static_cast<int>(i), texts[i]);
  Checked checked;
  checked.report = check.finish();
  checked.picture = check.picture(checked.report);
  return checked;
}

int code_of(Verdict verdict) {
  return verdict == Verdict::pass ? clean : verdict == Verdict::rejected ? unusable : found;
}

int run(const CheckOptions& options) {
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
  std::optional<Plan> plan;
  std::optional<CheckedConfig> configured;
  try {
    if (sources.any()) {
      configured = check_sources(sources);
      plan = configured->plan;
    }
  } catch (const RejectedConfig& rejected) {
    if (options.json) {
      Json json;
      json["verdict"] = std::string(to_string(Verdict::rejected));
      json["records"] = 0;
      json["findings"] = tools::json_of(rejected.findings());
      write_result(to_text(json), std::nullopt);
    }
    throw;
  }
  Checked checked;
  if (!inputs.logs.empty()) {
    checked =
        options.map.first.empty()
            ? check_logs(inputs.logs, options.patterns, plan, options.follow)
            : check_traces(inputs.logs, TraceMap({options.map.first, options.map.second}), plan);
  }
  const LogReport& report = checked.report;
  if (report.verdict == Verdict::rejected && !options.json) {
    std::vector<std::string> lines;
    for (const LogFinding& finding : report.findings) lines.push_back(finding.message);
    throw UsageError(std::move(lines));
  }
  std::string text;
  if (options.json) {
    Json json = json_of(report, plan);
    if (configured) {
      json["stages"] = configured->plan.stages;
      json["microbatches"] = configured->plan.microbatches;
      json["replicas"] = configured->replicas;
      if (!configured->settings.unused.empty()) json["unused"] = configured->settings.unused;
    }
    text = to_text(json);
  } else {
    if (configured) text = text_of(*configured);
    text += text_of(report, plan, !inputs.logs.empty());
    if (!checked.picture.empty()) {
      text += '\n' + (wants_colour() ? coloured(checked.picture) : checked.picture);
    }
  }
  write_result(text, std::nullopt);
  return code_of(report.verdict);
}

}  // namespace

Subcommand check_command(CLI::App& sluice) {
  CLI::App* app =
      sluice.add_subcommand("check", "Hold logs against the timeline they should have been");
  const auto options = std::make_shared<CheckOptions>(*app);
  app->add_option(
      "INPUT", options->inputs,
      "CONFIG (ends in .toml; shape options override it) and any number of LOGs: text, JSON "
      "lines or CSV, gzipped or not, recordings, - for standard input. Without "
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
  app->add_flag("--json", options->json, "the report as JSON");
  app->footer(
      "Example: the log of a run at drain depth 1, held against the one that was wanted\n"
      "  sluice plan -S 4 -M 8 -W 1 --format log | sluice check -S 4 -M 8 -W 3 -");
  return {app, [options] { return run(*options); }};
}

}  // namespace sluice::tools
