#include "shape_options.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "errors.hpp"

namespace sluice::tools {
namespace {

struct ShapeOption {
  const char* name;
  const char* key;
  const char* value;
  const char* help;
};

constexpr std::array<ShapeOption, 16> shape_options{{
    {"-S", "pipeline.stages", "N", "stages of the pipeline, the total"},
    {"-M", "pipeline.microbatches", "N", "microbatches in a global batch; no default"},
    {"-W", "pipeline.drain_depth", "N",
     "drain depth: microbatches that enter behind the first before its backward; default S-1"},
    {"--schedule", "pipeline.schedule", "NAME|FILE.csv",
     "drain (default), 1f1b, gpipe, eager-1f1b, interleaved, looped-bfs, zb-h1, zb-h2, zb-v, "
     "dualpipe-v, or a file with a row a rank"},
    {"--chunks", "pipeline.chunks", "V", "stages a rank; default: what the schedule is made for"},
    {"--order", "pipeline.order", "MODE", "fixed (default) or adaptive"},
    {"--credits", "pipeline.credits", "LIST",
     "what each stage may hold, like 7,5,3,1; instead of -W"},
    {"--slots", "pipeline.slots", "N", "values that may wait between two stages; default: any"},
    {"--policy", "pipeline.policy", "CMD",
     "a command that decides: asked on its standard input, a JSON object a line"},
    {"--forward", "costs.forward", "LIST", "time of a forward: one number, or one a stage"},
    {"--backward", "costs.backward", "LIST", "time of a backward: one number, or one a stage"},
    {"--input-grad", "costs.input_grad", "LIST",
     "time of the half of a backward that others await"},
    {"--weight-grad", "costs.weight_grad", "LIST", "time of the other half"},
    {"--link", "costs.link", "LIST", "time between two stages: one number, or one an edge"},
    {"--overhead", "costs.overhead", "T", "time added to every action"},
    {"--memory", "memory.cap", "BYTES", "what a rank may use"},
}};

/// A list on the command line has commas only.
std::string as_toml(const ShapeOption& option, const std::string& value) {
  // A command and a schedule have commas of their own.
  const bool list =
      option.value == std::string_view("LIST") &&
      (option.key == std::string_view("pipeline.credits") || value.find(',') != std::string::npos);
  return list ? fmt::format("[{}]", value) : value;
}

}  // namespace

ShapeOptions::ShapeOptions(CLI::App& command) {
  for (const ShapeOption& option : shape_options) {
    command.add_option(option.name, values_[option.name], option.help)
        ->type_name(option.value)
        ->group("Shape");
  }
  command.add_flag("--legacy", legacy_, "the schedule's file is in the older notation: B, BW")
      ->group("Shape");
  command.add_option("--set", sets_, "override a key of the configuration; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

std::vector<Override> ShapeOptions::overrides(std::vector<Override> overrides) const {
  for (const ShapeOption& option : shape_options) {
    const auto& value = values_.at(option.name);
    if (value) overrides.push_back({option.key, as_toml(option, *value), option.name});
  }
  if (legacy_) overrides.push_back({"pipeline.legacy", "true", "--legacy"});
  for (const std::string& set : sets_) {
    const auto equals = set.find('=');
    if (equals == std::string::npos) {
      throw UsageError(fmt::format("--set {}", set),
                       "expected section.key=value, like --set train.epochs=1");
    }
    overrides.push_back(
        {set.substr(0, equals), set.substr(equals + 1), fmt::format("--set {}", set)});
  }
  for (auto each = overrides.begin(); each != overrides.end(); ++each) {
    const auto before = std::find_if(
        overrides.begin(), each, [each](const Override& other) { return other.key == each->key; });
    if (before == each) continue;
    throw UsageError(each->source, fmt::format("{} has been given by {}: expected one of the two",
                                               each->key, before->source));
  }
  return overrides;
}

std::vector<std::pair<std::string, std::string>> ShapeOptions::given() const {
  std::vector<std::pair<std::string, std::string>> given;
  for (const ShapeOption& option : shape_options) {
    const auto& value = values_.at(option.name);
    if (value) given.emplace_back(option.name, *value);
  }
  for (const std::string& set : sets_) given.emplace_back("--set", set);
  return given;
}

}  // namespace sluice::tools
