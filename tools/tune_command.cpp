// sluice tune: which schedule, depth, microbatches and partition to take.

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/tune.hpp>

#include "config.hpp"
#include "errors.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "shape_options.hpp"
#include "subcommands.hpp"

namespace sluice::tools {
namespace {

struct TuneOptions {
  explicit TuneOptions(CLI::App& command) : shape(command) {}

  std::optional<std::filesystem::path> config;
  ShapeOptions shape;
  bool json = false;
};

/// The costs say how many layers there are, where one of their lists has more than one number.
int layers_of(const PlanConfig& plan) {
  std::size_t layers = 1;
  for (const auto* list : {&plan.costs.forward, &plan.costs.backward, &plan.costs.input_gradient,
                           &plan.costs.weight_gradient}) {
    layers = std::max(layers, list->size());
  }
  layers = std::max({layers, plan.memory.per_microbatch.size(), plan.memory.fixed.size()});
  return layers == 1 ? plan.stages : static_cast<int>(layers);
}

/// With a batch, M can only be what cuts it into whole samples.
std::vector<int> choices_of(const Config& config) {
  std::vector<int> choices;
  if (!config.batch) return choices;
  const std::int64_t samples = config.batch->micro * config.plan.microbatches;
  for (const std::int64_t m :
       {config.plan.microbatches / 4, config.plan.microbatches / 2, config.plan.microbatches,
        2 * config.plan.microbatches, 4 * config.plan.microbatches}) {
    if (m >= 1 && samples % m == 0) choices.push_back(static_cast<int>(m));
  }
  return choices;
}

TuneRequest request_of(const Config& config) {
  TuneRequest request;
  request.ranks = config.plan.stages;
  request.microbatches = config.plan.microbatches;
  request.layers = layers_of(config.plan);
  request.costs = config.plan.costs;
  request.memory = config.plan.memory;
  request.slots = config.plan.slots;
  request.choices = choices_of(config);
  return request;
}

std::string depth_of(const PlanConfig& config) {
  if (config.credits) return fmt::format("credits {}", fmt::join(*config.credits, ","));
  if (config.drain_depth) return fmt::format("W={}", *config.drain_depth);
  if (config.chunks) return fmt::format("{} stages a rank", *config.chunks);
  return "";
}

double over_bound(const Tuned& tuned, const Tuning& tuning) {
  const double bound = tuning.lower_bound.units();
  return bound > 0 ? tuned.makespan.units() / bound - 1 : 0;
}

std::string list_of(const std::vector<Time>& times) {
  std::vector<double> units;
  units.reserve(times.size());
  for (const Time time : times) units.push_back(time.units());
  return fmt::format("{}", fmt::join(units, ","));
}

/// The best one as something to type.
std::string command_of(const PlanConfig& config) {
  std::string text = fmt::format("sluice plan -S {} -M {} --schedule {}", config.stages,
                                 config.microbatches, to_string(config.schedule));
  if (config.credits) text += fmt::format(" --credits {}", fmt::join(*config.credits, ","));
  if (config.drain_depth) text += fmt::format(" -W {}", *config.drain_depth);
  if (config.chunks) text += fmt::format(" --chunks {}", *config.chunks);
  if (config.order == OrderMode::adaptive) text += " --order adaptive";
  if (config.slots) text += fmt::format(" --slots {}", *config.slots);
  const Costs& costs = config.costs;
  text += fmt::format(" --forward {} --backward {} --input-grad {} --weight-grad {}",
                      list_of(costs.forward), list_of(costs.backward),
                      list_of(costs.input_gradient), list_of(costs.weight_gradient));
  if (!costs.link.empty()) text += fmt::format(" --link {}", list_of(costs.link));
  if (costs.overhead > Time()) text += fmt::format(" --overhead {}", costs.overhead.units());
  return text;
}

std::string text_of(const Tuning& tuning, const TuneRequest& request) {
  std::string text = fmt::format(
      "{} ranks, {} layers, M={}: {} timelines tried{}\nlower bound       {}: no schedule ends "
      "sooner with the M of the search\n\n",
      request.ranks, request.layers, request.microbatches, tuning.tried,
      tuning.complete ? "" : ", the most promising ones first, until the budget was spent",
      tuning.lower_bound.units());
  const bool bytes = std::any_of(tuning.best.begin(), tuning.best.end(),
                                 [](const Tuned& each) { return each.most_bytes > 0; });
  constexpr std::size_t few = 5;
  text +=
      fmt::format("{:<12} {:>12} {:>8} {:>6}  {:<24} {}{}\n", "schedule", "makespan", "over", "M",
                  "depth", bytes ? fmt::format("{:>14}  ", "most bytes") : "", "layers a stage");
  for (std::size_t i = 0; i < std::min(few, tuning.best.size()); ++i) {
    const Tuned& each = tuning.best[i];
    text +=
        fmt::format("{:<12} {:>12} {:>7.1f}% {:>6}  {:<24} {}{}\n", to_string(each.config.schedule),
                    each.makespan.units(), 100 * over_bound(each, tuning), each.config.microbatches,
                    depth_of(each.config), bytes ? fmt::format("{:>14}  ", each.most_bytes) : "",
                    fmt::join(each.partition, ","));
  }
  return text + fmt::format("\nthe first of them in full:\n  {}\n",
                            command_of(tuning.best.front().config));
}

Json json_of(const Tuning& tuning) {
  Json json;
  json["lower_bound"] = tools::json_of(tuning.lower_bound);
  json["tried"] = tuning.tried;
  json["complete"] = tuning.complete;
  json["best"] = Json::array();
  for (const Tuned& each : tuning.best) {
    Json one;
    one["schedule"] = to_string(each.config.schedule);
    one["stages"] = each.config.stages;
    one["microbatches"] = each.config.microbatches;
    if (each.config.drain_depth) one["drain_depth"] = *each.config.drain_depth;
    if (each.config.credits) one["credits"] = *each.config.credits;
    if (each.config.chunks) one["chunks"] = *each.config.chunks;
    one["partition"] = each.partition;
    one["makespan"] = tools::json_of(each.makespan);
    one["over_bound"] = tools::json_of(over_bound(each, tuning));
    if (each.most_bytes > 0) one["most_bytes"] = each.most_bytes;
    one["command"] = command_of(each.config);
    json["best"].push_back(std::move(one));
  }
  return json;
}

int run(const TuneOptions& options) {
  const Config config = read_config(options.config, options.shape.overrides());
  if (config.policy) {
    throw UsageError(config.places.at("policy"),
                     "tune searches the schedules that have a name; see what a policy does with "
                     "sluice plan, or leave it out");
  }
  for (const auto& [option, value] : options.shape.given()) {
    constexpr std::array<std::string_view, 5> searched{"-W", "--schedule", "--chunks", "--order",
                                                       "--credits"};
    if (std::find(searched.begin(), searched.end(), option) != searched.end()) {
      throw UsageError(option,
                       fmt::format("tune searches it; see what {} gives with sluice plan, or "
                                   "leave it out",
                                   value));
    }
  }
  const TuneRequest request = request_of(config);
  Tuning tuning;
  try {
    Progress progress;
    tuning = tune(request, [&progress](double done) {
      if (progress.due()) progress.show(fmt::format("tune: {:.0f}% of the search", 100 * done));
    });
  } catch (const ConfigError& error) {
    throw_rejected(config, error.findings());
  }
  if (options.json) {
    write_result(to_text(json_of(tuning)), std::nullopt);
  } else if (!tuning.best.empty()) {
    write_result(text_of(tuning, request), std::nullopt);
  }
  if (!tuning.best.empty()) return clean;
  throw UsageError(
      "sluice tune",
      fmt::format("nothing fits under cap = {}: expected room for one microbatch on every "
                  "stage; give more memory, more stages or smaller microbatches",
                  config.plan.memory.cap.value_or(0)));
}

}  // namespace

Subcommand tune_command(CLI::App& sluice) {
  CLI::App* app =
      sluice.add_subcommand("tune", "Search schedule, depth, microbatches and partition");
  const auto options = std::make_shared<TuneOptions>(*app);
  app->add_option("CONFIG", options->config, "configuration (TOML); shape options override it");
  app->add_flag("--json", options->json, "the result as JSON");
  app->footer(
      "-S is the number of ranks; lists of costs and bytes are by layer, and as many as there are "
      "layers.\n"
      "M is varied too: costs and bytes are those of a microbatch at the M given, and go with its "
      "size.\n\n"
      "Example: ten layers, the last one heavy, on four ranks\n"
      "  sluice tune -S 4 -M 16 --forward 1,1,1,1,1,1,1,1,1,3 --backward 2,2,2,2,2,2,2,2,2,6 "
      "--link 0.1");
  return {app, [options] { return run(*options); }};
}

}  // namespace sluice::tools
