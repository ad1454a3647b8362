#include "checked_config.hpp"

#include <utility>

#include <fmt/format.h>

#include "errors.hpp"
#include "plan_report.hpp"

namespace sluice::tools {
namespace {

ForeignSettings settings_of(const ConfigSources& sources) {
  if (sources.deepspeed && sources.megatron) {
    throw UsageError("--megatron", "given beside --deepspeed: expected one of the two");
  }
  if (sources.deepspeed) {
    return read_deepspeed(read_file(*sources.deepspeed), sources.deepspeed->string());
  }
  if (sources.megatron) {
    return read_megatron(read_file(*sources.megatron), sources.megatron->string());
  }
  return {};
}

std::vector<std::string> in_their_words(std::span<const std::string> lines,
                                        const ForeignSettings& settings) {
  std::vector<std::string> result;
  result.reserve(lines.size());
  for (const std::string& line : lines) result.push_back(in_their_words(line, settings));
  return result;
}

std::vector<Finding> in_their_words(std::span<const Finding> findings,
                                    const ForeignSettings& settings) {
  std::vector<Finding> result;
  result.reserve(findings.size());
  for (const Finding& finding : findings) result.push_back(in_their_words(finding, settings));
  return result;
}

/// How much of the ramp is on its way through a pipe that never fills.
std::optional<Finding> check_ramp_fill(const Config& config, const Plan& plan) {
  if (!config.batch || config.batch->ramp.empty()) return std::nullopt;
  std::size_t unfilled = 0;
  for (const std::int64_t global : config.batch->ramp) {
    BatchShape step = *config.batch;
    step.global = global;
    if (microbatches_of(step).value_or(0) <= plan.stages) ++unfilled;
  }
  if (unfilled == 0) return std::nullopt;
  BatchShape step = *config.batch;
  step.global = config.batch->ramp.front();
  PlanConfig first = config.plan;
  first.microbatches = static_cast<int>(*microbatches_of(step));
  first.detail = Detail::metrics;
  Finding finding;
  finding.rule = "fill";
  finding.severity = Severity::warning;
  finding.key = "ramp";
  finding.expected = fmt::format("microbatches well above {}", plan.stages);
  finding.found = std::to_string(first.microbatches);
  finding.message = fmt::format(
      "ramp = {}: the first {} of {} batches have no more than stages = {} microbatches; the first "
      "has {}, and {:.0f}% of its makespan is bubble; start the ramp higher, or expect it to be "
      "slow",
      step.global, unfilled, config.batch->ramp.size(), plan.stages, first.microbatches,
      100 * derive_plan(first).bubble_of_makespan);
  return finding;
}

}  // namespace

CheckedConfig check_sources(const ConfigSources& sources) {
  CheckedConfig checked;
  checked.settings = settings_of(sources);
  std::vector<Override> overrides = checked.settings.values;
  overrides.insert(overrides.end(), sources.overrides.begin(), sources.overrides.end());
  try {
    Config config = read_config(sources.config, overrides);
    config.findings.insert(config.findings.begin(), checked.settings.findings.begin(),
                           checked.settings.findings.end());
    checked.plan = plan_of(config);
    checked.replicas = config.replicas;
    if (auto finding = check_ramp_fill(config, checked.plan)) {
      checked.plan.findings.push_back(*std::move(finding));
    }
  } catch (const RejectedConfig& rejected) {
    throw RejectedConfig(in_their_words(rejected.lines(), checked.settings),
                         in_their_words(rejected.findings(), checked.settings));
  } catch (const UsageError& error) {
    throw UsageError(in_their_words(error.lines(), checked.settings));
  }
  for (Finding& finding : checked.plan.findings)
    finding = in_their_words(finding, checked.settings);
  return checked;
}

std::string text_of(const CheckedConfig& checked) {
  const ForeignSettings& settings = checked.settings;
  if (settings.values.empty()) return "";
  std::string text = title_of(checked.plan);
  text +=
      fmt::format("{} replica{} of {} rank{}\n", checked.replicas, checked.replicas == 1 ? "" : "s",
                  checked.plan.ranks, checked.plan.ranks == 1 ? "" : "s");
  for (const std::string& note : settings.notes) text += fmt::format("note: {}\n", note);
  if (!settings.unused.empty()) {
    text += fmt::format("not used here: {}\n", fmt::join(settings.unused, ", "));
  }
  return text;
}

}  // namespace sluice::tools
