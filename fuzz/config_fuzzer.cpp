// Any bytes as a configuration: TOML of ours, DeepSpeed's JSON, Megatron's arguments, our own arguments, a
// line each. A plan, or errors that say something; the first byte says which.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "../tools/config.hpp"
#include "../tools/errors.hpp"
#include "../tools/foreign_settings.hpp"
#include "../tools/shape_options.hpp"

namespace {

using namespace sluice::tools;

/// Small enough to derive in no time; what a shape costs is another question.
bool is_small(const Config& config) {
  const auto& plan = config.plan;
  return plan.stages <= 64 && plan.microbatches <= 64 && plan.chunks.value_or(1) <= 64;
}

std::vector<Override> overrides_in(std::string_view text) {
  std::vector<std::string> arguments;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) arguments.push_back(line);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  CLI::App app;
  ShapeOptions shape(app);
  try {
    app.parse(arguments);
  } catch (const CLI::Error&) {
    return {};
  }
  return shape.overrides();
}

void read(std::string_view text, int kind) {
  // No configuration may make this read the files of the machine.
  if (text.find(".csv") != std::string_view::npos) return;
  ForeignSettings settings;
  if (kind == 1) settings = read_deepspeed(text, "settings");
  if (kind == 2) settings = read_megatron(text, "settings");
  if (kind == 3) settings.values = overrides_in(text);
  const Config config = parse_config(kind == 0 ? text : "", "config", settings.values);
  if (!is_small(config)) return;
  const sluice::Plan plan = plan_of(config);
  for (const sluice::Finding& finding : plan.findings) in_their_words(finding, settings);
  // What is written reads as the same plan.
  const Config again = parse_config(to_toml(config), "again");
  if (plan_of(again).order != plan.order) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    read(text, data[0] % 4);
  } catch (const UsageError& error) {
    if (error.lines().empty() || error.lines().front().empty()) std::abort();
  }
  return 0;
}
