#include "config.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <sluice/schedule_csv.hpp>

#include "batch.hpp"
#include "document.hpp"
#include "errors.hpp"

namespace sluice::tools {
namespace {

constexpr std::int64_t most_int = std::numeric_limits<int>::max();
constexpr std::int64_t most_samples = most_int;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  // A directory opens like a file, and throws when it is read.
  if (file && !std::filesystem::is_directory(path)) {
    text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  } else {
    file.setstate(std::ios::failbit);
  }
  if (!file) throw UsageError(path.string(), "cannot be read; expected a configuration file");
  return text;
}

bool is_file(std::string_view schedule) { return schedule.ends_with(".csv"); }

/// A schedule of the user's own: the name of a file, or its rows themselves.
bool is_own(std::string_view schedule) {
  return is_file(schedule) || schedule.find_first_of(",\n") != std::string_view::npos;
}

void read_own_schedule(const std::string& schedule, bool legacy, std::optional<int> stages,
                       std::optional<int> microbatches, const std::filesystem::path& folder,
                       Config& config) {
  ScheduleCsvOptions options;
  options.stages = stages;
  options.microbatches = microbatches;
  options.legacy = legacy;
  try {
    const std::string rows = is_file(schedule) ? read_file(folder / schedule) : schedule;
    ReadSchedule read = read_schedule_csv(rows, options);
    config.plan.stages = static_cast<int>(read.schedule.rank_of.size());
    config.plan.microbatches = read.microbatches;
    config.plan.custom = std::move(read.schedule);
  } catch (const ConfigError& error) {
    config.findings = error.findings();
  }
}

void read_pipeline(Document& document, const std::filesystem::path& folder, Config& config) {
  Section section = document.section("pipeline");
  PlanConfig& plan = config.plan;
  const auto stages = section.whole("stages");
  const auto microbatches = section.whole("microbatches");
  plan.stages = stages.value_or(1);
  plan.microbatches = microbatches.value_or(1);
  plan.drain_depth = section.whole("drain_depth");
  const auto schedule = section.text("schedule");
  const bool legacy = section.flag("legacy").value_or(false);
  if (schedule && is_own(*schedule)) {
    // A file given as an option is found from where the user stands.
    const bool from_file = document.is_in_file("pipeline.schedule");
    read_own_schedule(*schedule, legacy, stages, microbatches, from_file ? folder : "", config);
  } else {
    if (!section.has("stages")) section.missing("stages", "-S", "");
    if (!section.has("microbatches")) {
      section.missing("microbatches", "-M",
                      " (there is no default; well above stages is a good choice)");
    }
    const auto name = schedule ? parse_schedule_name(*schedule) : plan.schedule;
    if (!name)
      section.reject("schedule", fmt::format("{}, or a file like mine.csv", schedule_names));
    plan.schedule = name.value_or(plan.schedule);
  }
  if (const auto order = section.text("order")) {
    if (*order != "fixed" && *order != "adaptive") section.reject("order", "fixed or adaptive");
    plan.order = *order == "adaptive" ? OrderMode::adaptive : OrderMode::fixed;
  }
  if (const auto credits = section.wholes("credits", 1, most_int)) {
    plan.credits.emplace(credits->begin(), credits->end());
  }
  plan.chunks = section.whole("chunks");
  plan.slots = section.whole("slots");
  section.finish();
}

void read_costs(Document& document, Costs& costs) {
  Section section = document.section("costs");
  costs.forward = section.times("forward").value_or(costs.forward);
  costs.backward = section.times("backward").value_or(costs.backward);
  costs.input_gradient = section.times("input_grad").value_or(costs.input_gradient);
  costs.weight_gradient = section.times("weight_grad").value_or(costs.weight_gradient);
  costs.link = section.times("link").value_or(costs.link);
  costs.overhead = section.time("overhead").value_or(costs.overhead);
  costs.sizes = section.wholes("sizes", 1, most_samples).value_or(costs.sizes);
  section.finish();
}

void read_memory(Document& document, Memory& memory) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  Section section = document.section("memory");
  memory.per_microbatch =
      section.whole_or_wholes("per_microbatch", 0, most).value_or(memory.per_microbatch);
  memory.fixed = section.whole_or_wholes("fixed", 0, most).value_or(memory.fixed);
  memory.cap = section.whole("cap", 0);
  section.finish();
}

std::optional<BatchConfig> read_batch(Document& document, int microbatches) {
  Section section = document.section("batch");
  const auto global = section.whole("global", 1, most_samples);
  const auto micro = section.whole("micro", 1, most_samples);
  section.finish();
  if (!global && !micro) return std::nullopt;
  BatchConfig batch;
  batch.micro = micro ? *micro : std::max<std::int64_t>(1, *global / microbatches);
  batch.global = global ? *global : batch.micro * microbatches;
  return batch;
}

std::optional<ModelConfig> read_model(Document& document) {
  Section section = document.section("model");
  const auto kind = section.text("kind");
  if (kind && *kind != "perceptron") section.reject("kind", "perceptron, the only kind there is");
  auto widths = section.wholes("widths", 1, most_int);
  if (widths && widths->size() < 2) {
    section.reject("widths", "two or more: features, hidden layers if any, classes");
  }
  section.finish();
  if (!widths) return std::nullopt;
  return ModelConfig{*std::move(widths)};
}

/// What the kernels compute with is a float.
using Floats = std::numeric_limits<float>;

std::optional<double> number_in(Section& section, std::string_view key, float least, float most,
                                std::string_view expected) {
  const auto number = section.number(key);
  const bool fits = !number || (least <= *number && *number <= most);
  if (!fits) section.reject(key, expected);
  return number;
}

void read_train(Document& document, TrainConfig& train, const std::filesystem::path& folder) {
  Section section = document.section("train");
  train.epochs = section.whole("epochs", 1, most_int).value_or(train.epochs);
  train.steps = section.whole("steps", 1, most_int);
  train.learning_rate =
      number_in(section, "learning_rate", Floats::min(), Floats::max(), "a finite number above 0")
          .value_or(train.learning_rate);
  train.decay = section.flag("decay").value_or(train.decay);
  train.momentum = number_in(section, "momentum", 0, std::nextafter(1.0F, 0.0F), "0 to less than 1")
                       .value_or(train.momentum);
  train.weight_decay =
      number_in(section, "weight_decay", 0, Floats::max(), "a finite number, 0 or more")
          .value_or(train.weight_decay);
  train.check_finite = section.flag("check_finite").value_or(train.check_finite);
  train.seed = section.whole("seed", 0).value_or(train.seed);
  train.threads = static_cast<int>(section.whole("threads", 1, 1024).value_or(train.threads));
  // Beside the configuration, wherever the command was started.
  if (const auto data = section.text("data")) {
    train.data = std::filesystem::absolute(folder / *data);
  }
  if (const auto fail = section.text("fail")) {
    train.fail = parse_action(*fail);
    if (!train.fail) section.reject("fail", "an action, like 2F5: stage 2, forward, microbatch 5");
  }
  train.fail_step = section.whole("fail_step", 0, most_int).value_or(train.fail_step);
  section.finish();
}

void read_record(Document& document, RecordConfig& record) {
  Section section = document.section("record");
  if (const auto mode = section.text("mode")) {
    if (*mode != "full" && *mode != "verify") section.reject("mode", "full or verify");
    record.mode = *mode == "full" ? replay::RecordingMode::full : replay::RecordingMode::verify;
  }
  section.finish();
}

}  // namespace

Config read_config(const std::optional<std::filesystem::path>& file,
                   std::span<const Override> overrides) {
  if (!file) return parse_config("", "", overrides);
  return parse_config(read_file(*file), file->string(), overrides);
}

Config parse_config(std::string_view text, const std::string& name,
                    std::span<const Override> overrides) {
  Document document(text, name);
  for (const Override& given : overrides) document.set(given);
  Config config;
  config.name = name.empty() ? "sluice" : name;
  const std::filesystem::path folder = std::filesystem::path(name).parent_path();
  read_pipeline(document, folder, config);
  read_costs(document, config.plan.costs);
  read_memory(document, config.plan.memory);
  config.batch = read_batch(document, std::max(1, config.plan.microbatches));
  config.model = read_model(document);
  read_train(document, config.train, folder);
  read_record(document, config.record);
  document.finish();
  config.places = document.places();
  return config;
}

void require_training(const Config& config) {
  std::vector<std::string> errors;
  if (!config.batch) {
    errors.push_back(error_line(config.name,
                                "batch.micro is missing: expected the samples in a "
                                "microbatch; write [batch] micro = 32"));
  }
  if (!config.model) {
    errors.push_back(error_line(config.name,
                                "model.widths is missing: expected the layers of a "
                                "perceptron; write [model] widths = [784, 128, 10]"));
  }
  if (!errors.empty()) throw UsageError(std::move(errors));
}

Plan plan_of(const Config& config) {
  std::vector<Finding> findings = config.findings;
  if (findings.empty()) {
    if (config.batch) {
      findings = check_batch(config.batch->global, config.batch->micro, config.plan.microbatches);
    }
    try {
      Plan plan = derive_plan(config.plan);
      if (findings.empty()) return plan;
    } catch (const ConfigError& error) {
      findings.insert(findings.begin(), error.findings().begin(), error.findings().end());
    }
  }
  std::vector<std::string> lines;
  lines.reserve(findings.size());
  for (const Finding& finding : findings) {
    const auto place = config.places.find(finding.key);
    lines.push_back(error_line(place == config.places.end() ? config.name : place->second,
                               fmt::format("{}: {}", finding.rule, finding.message)));
  }
  throw RejectedConfig(std::move(lines), std::move(findings));
}

}  // namespace sluice::tools
