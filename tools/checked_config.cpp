#include "checked_config.hpp"

#include <utility>

#include <fmt/format.h>

#include "document.hpp"
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

std::vector<Override> overrides_of(const ConfigSources& sources, const ForeignSettings& settings) {
  std::vector<Override> overrides = settings.values;
  overrides.insert(overrides.end(), sources.overrides.begin(), sources.overrides.end());
  return overrides;
}

}  // namespace

GivenShape given_shape(const ConfigSources& sources) {
  Document document(sources.config ? read_file(*sources.config) : "",
                    sources.config ? sources.config->string() : "");
  const std::vector<Override> overrides = overrides_of(sources, settings_of(sources));
  for (const Override& given : overrides) document.set(given);
  GivenShape shape;
  Section pipeline = document.section("pipeline");
  Section batch = document.section("batch");
  const std::string schedule = pipeline.text("schedule").value_or("");
  const bool own = schedule.find_first_of(".,\n") != std::string::npos;
  const bool microbatches =
      pipeline.has("microbatches") || (batch.has("global") && batch.has("micro"));
  shape.whole = own || (pipeline.has("stages") && microbatches);
  shape.order = pipeline.has("schedule") || pipeline.has("drain_depth") || pipeline.has("credits");
  shape.known = {pipeline.whole("stages"), pipeline.whole("microbatches")};
  // What is there and wrong is told by whoever makes a plan of it.
  const auto wrong = [&pipeline](const char* key, const std::optional<std::int32_t>& number) {
    return pipeline.has(key) && number.value_or(0) < 1;
  };
  shape.whole = shape.whole || wrong("stages", shape.known.stages) ||
                wrong("microbatches", shape.known.microbatches);
  const auto ids = static_cast<std::size_t>(pipeline.has("stages")) +
                   static_cast<std::size_t>(pipeline.has("microbatches"));
  shape.more = sources.config || overrides.size() > ids;
  return shape;
}

std::string complete_shape(ConfigSources& sources, const GivenShape& given, const Inference& seen) {
  std::string taken;
  const auto take = [&](const char* key, const std::string& value) {
    sources.overrides.push_back({fmt::format("pipeline.{}", key), value, "the log"});
    taken += fmt::format("{}{} = {}", taken.empty() ? "" : ", ", key, value);
  };
  if (!given.known.stages) take("stages", std::to_string(seen.stages));
  if (!given.known.microbatches) take("microbatches", std::to_string(seen.microbatches));
  if (given.order || seen.schedules.empty()) return taken;
  const Guess& guess = seen.schedules.front();
  take("schedule", std::string(to_string(guess.schedule)));
  if (guess.schedule == ScheduleName::drain) take("drain_depth", std::to_string(seen.drain_depth));
  if (guess.chunks > 1) take("chunks", std::to_string(guess.chunks));
  return taken;
}

CheckedConfig check_sources(const ConfigSources& sources) {
  CheckedConfig checked;
  checked.settings = settings_of(sources);
  const std::vector<Override> overrides = overrides_of(sources, checked.settings);
  try {
    Config config = read_config(sources.config, overrides);
    config.findings.insert(config.findings.begin(), checked.settings.findings.begin(),
                           checked.settings.findings.end());
    checked.plan = plan_of(config);
    checked.replicas = config.replicas;
    checked.files = config.files;
    if (sources.deepspeed) checked.files.push_back(*sources.deepspeed);
    if (sources.megatron) checked.files.push_back(*sources.megatron);
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
