#include "config.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <utility>

#include <fmt/format.h>

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

int required(Document& document, Section& section, const char* key, const char* option,
             const char* advice) {
  if (!section.has(key)) {
    document.report(document.where(fmt::format("pipeline.{}", key)),
                    fmt::format("pipeline.{} is missing: expected a whole number, 1 or more; give "
                                "{} or write it in [pipeline]{}",
                                key, option, advice));
  }
  return section.whole(key).value_or(1);
}

void read_pipeline(Document& document, PlanConfig& plan) {
  Section section = document.section("pipeline");
  plan.stages = required(document, section, "stages", "-S", "");
  plan.microbatches = required(document, section, "microbatches", "-M",
                               " (there is no default; well above stages is a good choice)");
  plan.drain_depth = section.whole("drain_depth");
  if (const auto name = section.text("schedule")) {
    const auto schedule = parse_schedule_name(*name);
    if (!schedule) section.reject("schedule", "drain, 1f1b, gpipe or eager-1f1b");
    plan.schedule = schedule.value_or(plan.schedule);
  }
  if (const auto order = section.text("order")) {
    if (*order != "fixed" && *order != "adaptive") section.reject("order", "fixed or adaptive");
    plan.order = *order == "adaptive" ? OrderMode::adaptive : OrderMode::fixed;
  }
  if (const auto credits = section.wholes("credits", 1, most_int)) {
    plan.credits.emplace(credits->begin(), credits->end());
  }
  plan.slots = section.whole("slots");
  section.finish();
}

void read_costs(Document& document, Costs& costs) {
  Section section = document.section("costs");
  costs.forward = section.times("forward").value_or(costs.forward);
  costs.backward = section.times("backward").value_or(costs.backward);
  costs.link = section.times("link").value_or(costs.link);
  costs.overhead = section.time("overhead").value_or(costs.overhead);
  costs.sizes = section.wholes("sizes", 1, most_samples).value_or(costs.sizes);
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

void read_train(Document& document, TrainConfig& train, const std::filesystem::path& folder) {
  Section section = document.section("train");
  train.epochs = section.whole("epochs", 1, most_int).value_or(train.epochs);
  train.steps = section.whole("steps", 1, most_int);
  train.learning_rate = section.number("learning_rate").value_or(train.learning_rate);
  if (!(train.learning_rate > 0 && std::isfinite(train.learning_rate))) {
    section.reject("learning_rate", "a finite number above 0");
  }
  train.decay = section.flag("decay").value_or(train.decay);
  train.momentum = section.number("momentum").value_or(train.momentum);
  if (!(train.momentum >= 0 && train.momentum < 1)) section.reject("momentum", "0 to less than 1");
  train.weight_decay = section.number("weight_decay").value_or(train.weight_decay);
  if (!(train.weight_decay >= 0 && std::isfinite(train.weight_decay))) {
    section.reject("weight_decay", "a finite number, 0 or more");
  }
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

/// As TOML; one that stands for all stages as a plain number.
std::string list_of(const std::vector<Time>& times) {
  if (times.size() == 1) return fmt::format("{}", times.front().units());
  std::vector<double> units;
  for (const Time& time : times) units.push_back(time.units());
  return fmt::format("[{}]", fmt::join(units, ", "));
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
  read_pipeline(document, config.plan);
  read_costs(document, config.plan.costs);
  config.batch = read_batch(document, std::max(1, config.plan.microbatches));
  config.model = read_model(document);
  read_train(document, config.train, std::filesystem::path(name).parent_path());
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
  const auto& fail = config.train.fail;
  if (fail && (fail->stage.value >= config.plan.stages || fail->phase > Phase::backward ||
               fail->mb.value >= config.plan.microbatches)) {
    errors.push_back(error_line(
        config.places.at("fail"),
        fmt::format("train.fail = {}: expected an action of the run: stage 0 to {}, F or B, "
                    "microbatch 0 to {}",
                    to_string(*fail), config.plan.stages - 1, config.plan.microbatches - 1)));
  }
  if (!errors.empty()) throw UsageError(std::move(errors));
}

Plan plan_of(const Config& config) {
  std::vector<Finding> findings;
  if (config.batch && config.plan.microbatches >= 1) {
    auto batch = check_batch(config.batch->global, config.batch->micro, config.plan.microbatches);
    if (batch) findings.push_back(*std::move(batch));
  }
  try {
    Plan plan = derive_plan(config.plan);
    if (findings.empty()) return plan;
  } catch (const ConfigError& error) {
    findings.insert(findings.begin(), error.findings().begin(), error.findings().end());
  }
  std::vector<std::string> lines;
  for (const Finding& finding : findings) {
    const auto place = config.places.find(finding.key);
    lines.push_back(error_line(place == config.places.end() ? config.name : place->second,
                               fmt::format("{}: {}", finding.rule, finding.message)));
  }
  throw RejectedConfig(std::move(lines), std::move(findings));
}

std::string to_toml(const Config& config) {
  std::string text;
  const auto line = [&text](std::string_view key, const auto& value) {
    text += fmt::format("{} = {}\n", key, value);
  };
  const auto word = [&line](std::string_view key, std::string_view value) {
    std::ostringstream quoted;
    quoted << toml::value<std::string>(value);
    line(key, quoted.str());
  };

  const PlanConfig& plan = config.plan;
  text += "[pipeline]\n";
  line("stages", plan.stages);
  line("microbatches", plan.microbatches);
  if (plan.drain_depth) line("drain_depth", *plan.drain_depth);
  word("schedule", to_string(plan.schedule));
  word("order", plan.order == OrderMode::adaptive ? "adaptive" : "fixed");
  if (plan.credits) line("credits", fmt::format("[{}]", fmt::join(*plan.credits, ", ")));
  if (plan.slots) line("slots", *plan.slots);

  text += "\n[costs]\n";
  if (!plan.costs.forward.empty()) line("forward", list_of(plan.costs.forward));
  if (!plan.costs.backward.empty()) line("backward", list_of(plan.costs.backward));
  if (!plan.costs.link.empty()) line("link", list_of(plan.costs.link));
  line("overhead", plan.costs.overhead.units());
  if (!plan.costs.sizes.empty())
    line("sizes", fmt::format("[{}]", fmt::join(plan.costs.sizes, ", ")));

  if (config.batch) {
    text += "\n[batch]\n";
    line("global", config.batch->global);
    line("micro", config.batch->micro);
  }
  if (config.model) {
    text += "\n[model]\n";
    word("kind", "perceptron");
    line("widths", fmt::format("[{}]", fmt::join(config.model->widths, ", ")));
  }
  const TrainConfig& train = config.train;
  text += "\n[train]\n";
  line("epochs", train.epochs);
  if (train.steps) line("steps", *train.steps);
  line("learning_rate", train.learning_rate);
  line("decay", train.decay);
  line("momentum", train.momentum);
  line("weight_decay", train.weight_decay);
  line("check_finite", train.check_finite);
  line("seed", train.seed);
  line("threads", train.threads);
  word("data", train.data.string());
  if (train.fail) word("fail", to_string(*train.fail));
  line("fail_step", train.fail_step);
  text += "\n[record]\n";
  word("mode", config.record.mode == replay::RecordingMode::full ? "full" : "verify");
  return text;
}

}  // namespace sluice::tools
