// sluice plan: what a configuration will do, before it does it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/chrome_trace.hpp>
#include <sluice/drawing.hpp>

#include "config.hpp"
#include "errors.hpp"
#include "measured_input.hpp"
#include "output.hpp"
#include "plan_report.hpp"
#include "progress.hpp"
#include "shape_options.hpp"
#include "subcommands.hpp"

namespace sluice::tools {
namespace {

struct PlanOptions {
  explicit PlanOptions(CLI::App& command) : shape(command) {}

  std::optional<std::filesystem::path> config;
  ShapeOptions shape;
  std::string format = "text";
  bool json = false;
  std::vector<std::string> measured;
  std::optional<std::filesystem::path> output;
};

using Measured = std::optional<MeasuredInput>;

/// Says on a terminal what takes so long, where it does.
class Waiting {
 public:
  explicit Waiting(const PlanConfig& config)
      : actions_(2 * std::int64_t{config.stages} * config.microbatches) {}

  void show(std::string_view what) {
    if (actions_ < many || !progress_.due()) return;
    progress_.show(fmt::format("{} {} actions", what, actions_));
  }

 private:
  static constexpr std::int64_t many = 1'000'000;  // some tenths of a second

  std::int64_t actions_;
  Progress progress_;
};

std::string summary_of(const Plan& plan, const Measured& measured) {
  const std::string compared = measured ? '\n' + measured_text(plan, *measured) : std::string();
  return header_of(plan) + details_of(plan) + recommendation_of(plan) + findings_of(plan) +
         compared;
}

std::string text_of(const Plan& plan, const Measured& measured, bool to_terminal) {
  std::string picture = picture_of(plan, scale_of(plan));
  if (to_terminal && wants_colour()) picture = coloured(picture);
  return summary_of(plan, measured) + '\n' + picture;
}

std::string result_of(const Plan& plan, const Measured& measured, const std::string& format,
                      bool to_terminal) {
  if (format == "json") {
    Json json = json_of(plan);
    if (measured) json["measured"] = measured_json(plan, *measured);
    return to_text(json);
  }
  if (format == "csv") return csv_of(plan);
  if (format == "log") return log_of(plan);
  if (format == "svg") return draw_svg({track_of(plan)});
  if (format == "trace") return chrome_trace({track_of(plan)});
  if (format == "html") {
    return draw_html("sluice plan", summary_of(plan, measured), {track_of(plan)});
  }
  return text_of(plan, measured, to_terminal);
}

int run(const PlanOptions& options) {
  const std::string format = options.json ? "json" : options.format;
  Config config = read_config(options.config, options.shape.overrides());
  config.files.insert(config.files.end(), options.measured.begin(), options.measured.end());
  keep_inputs(config.files, options.output);
  try {
    Measured measured;
    std::string result;
    {
      Waiting waiting(config.plan);
      waiting.show("deriving");
      const Plan plan = plan_of(config);
      if (!options.measured.empty()) measured = read_measured(options.measured);
      waiting.show("telling where the time goes of");
      result = result_of(plan, measured, format, !options.output);
    }
    write_result(result, options.output);
  } catch (const RejectedConfig& rejected) {
    if (format == "json") {
      Json findings;
      findings["findings"] = json_of(rejected.findings());
      write_result(to_text(findings), options.output);
    }
    throw;
  }
  return clean;
}

}  // namespace

Subcommand plan_command(CLI::App& sluice) {
  CLI::App* app = sluice.add_subcommand("plan", "Derive order, timeline, credits and bubble");
  const auto options = std::make_shared<PlanOptions>(*app);
  app->add_option("CONFIG", options->config, "configuration (TOML); shape options override it");
  app->add_option("--format", options->format,
                  "text (default), json, csv: the order as a file, log: the log to expect, svg or "
                  "html: a picture, or trace: for Perfetto")
      ->check(CLI::IsMember({"text", "json", "csv", "log", "svg", "html", "trace"}))
      ->type_name("FORMAT");
  app->add_flag("--json", options->json, "the same as --format json");
  app->add_option("--measured", options->measured,
                  "where the run differs from the plan, and which key mends it: a log with t= in "
                  "its records, as sluice train --log writes it, or times typed in: forward=LIST, "
                  "backward=LIST, input_grad=LIST, weight_grad=LIST, link=LIST, step=T, and "
                  "steps=M:T,M:T to fit what a step costs. May be repeated")
      ->type_name("LOG|KEY=LIST")
      ->allow_extra_args(false);
  app->add_option("-o", options->output, "write to FILE instead of standard output")
      ->type_name("FILE");
  app->footer(
      "Example: what a smaller drain depth costs, four equal stages and eight microbatches\n"
      "  sluice plan -S 4 -M 8 --forward 1 --backward 2 -W 2\n"
      "What the run that was measured had instead\n"
      "  sluice plan -S 4 -M 8 --backward 2 --measured forward=1,1,1,1.4 --measured step=41\n"
      "A policy of one's own, in any language: it reads a JSON object a line, and answers each\n"
      "  {\"kind\":\"choose\",\"rank\":0,\"held\":2,\"ready\":[\"0F2\",\"0B0\"]}\n"
      "with {\"action\":\"0F2\"}, or {\"action\":null} to wait; what else it is told it may "
      "ignore\n"
      "  sluice plan -S 4 -M 8 --policy 'python3 examples/backward_first.py'");
  return {app, [options] { return run(*options); }};
}

}  // namespace sluice::tools
