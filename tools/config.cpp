#include "config.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <sluice/policy_timeline.hpp>
#include <sluice/schedule_csv.hpp>

#include "config_batch.hpp"
#include "config_record.hpp"
#include "document.hpp"
#include "errors.hpp"
#include "policy_child.hpp"

namespace sluice::tools {
namespace {

constexpr std::int64_t most_int = std::numeric_limits<int>::max();
constexpr std::int64_t most_samples = most_int;

bool is_file(std::string_view schedule) { return schedule.ends_with(".csv"); }

/// A schedule of the user's own: the name of a file, or its rows themselves.
bool is_own(std::string_view schedule) {
  return is_file(schedule) || schedule.find_first_of(",\n") != std::string_view::npos;
}

/// The reader says `schedule, row 2, ...`: of a file its name, of rows as they are nothing more than that.
void name_schedule(Finding& finding, const std::string& schedule) {
  constexpr std::string_view plain = "schedule, ";
  if (!finding.message.starts_with(plain)) return;
  const std::string name = is_file(schedule) ? schedule + ", " : std::string();
  finding.message.replace(0, plain.size(), name);
}

void read_own_schedule(const std::string& schedule, bool legacy, std::optional<int> stages,
                       std::optional<int> microbatches, const std::filesystem::path& folder,
                       Config& config) {
  ScheduleCsvOptions options;
  options.stages = stages;
  options.microbatches = microbatches;
  options.legacy = legacy;
  try {
    std::string rows = schedule;
    if (is_file(schedule)) {
      config.files.push_back(folder / schedule);
      rows = read_file(config.files.back());
    }
    ReadSchedule read = read_schedule_csv(rows, options);
    config.plan.stages = static_cast<int>(read.schedule.rank_of.size());
    config.plan.microbatches = read.microbatches;
    config.plan.custom = std::move(read.schedule);
  } catch (const ConfigError& error) {
    config.findings = error.findings();
    for (Finding& finding : config.findings) name_schedule(finding, schedule);
  }
}

std::string advice_for(std::optional<int> stages) {
  std::string advice = " (there is no default; well above stages is a good choice";
  // All of them: a rank with several counts several times.
  if (stages && *stages >= 1) {
    advice += fmt::format(", with {} stages in all {} for one", *stages, 4 * std::int64_t{*stages});
  }
  return advice + "; it also follows from batch.global and batch.micro)";
}

/// M as the batch has it; nothing when the batch does not say, or says what no M can make whole.
std::optional<int> microbatches_from(const BatchSection& batch, Config& config) {
  const auto shape = shape_of(batch, replicas_of(batch, config.devices, config.plan));
  if (!shape) return std::nullopt;
  if (auto finding = check_batch(*shape)) config.findings.push_back(*std::move(finding));
  return static_cast<int>(microbatches_of(*shape).value_or(1));
}

void read_pipeline(Document& document, const BatchSection& batch,
                   const std::filesystem::path& folder, Config& config) {
  Section section = document.section("pipeline");
  PlanConfig& plan = config.plan;
  const auto stages = section.whole("stages");
  const auto microbatches = section.whole("microbatches");
  plan.stages = stages.value_or(1);
  plan.microbatches = microbatches.value_or(1);
  plan.chunks = section.whole("chunks");
  plan.drain_depth = section.whole("drain_depth");
  const auto schedule = section.text("schedule");
  const bool legacy = section.flag("legacy").value_or(false);
  if (schedule && is_own(*schedule)) {
    // A file given as an option is found from where the user stands.
    const bool from_file = document.is_in_file("pipeline.schedule");
    read_own_schedule(*schedule, legacy, stages, microbatches, from_file ? folder : "", config);
  } else {
    if (!section.has("stages")) section.missing("stages", "-S", "");
    if (const auto name = schedule ? parse_schedule_name(*schedule) : plan.schedule) {
      plan.schedule = *name;
    } else {
      section.reject("schedule", fmt::format("{}, or a file like mine.csv", schedule_names));
    }
    if (!section.has("microbatches")) {
      const auto whole = microbatches_from(batch, config);
      plan.microbatches = whole.value_or(1);
      if (!whole) section.missing("microbatches", "-M", advice_for(stages));
    }
  }
  if (const auto order = section.text("order")) {
    if (*order != "fixed" && *order != "adaptive") section.reject("order", "fixed or adaptive");
    plan.order = *order == "adaptive" ? OrderMode::adaptive : OrderMode::fixed;
  }
  if (const auto credits = section.wholes("credits", 1, most_int)) {
    plan.credits.emplace(credits->begin(), credits->end());
  }
  plan.slots = section.whole("slots");
  if (const auto command = section.text("policy")) {
    if (command->find_first_not_of(" \t\n") == std::string::npos) {
      section.reject("policy", "a command, like 'python3 examples/backward_first.py'");
    }
    config.policy = PolicyConfig{*command, plan.order == OrderMode::adaptive, plan.drain_depth};
    plan.order = OrderMode::fixed;
  }
  section.finish();
  // Another schedule than the file's has no use for what the file says of its own.
  if (schedule && *schedule != "drain" && !document.is_in_file("pipeline.schedule")) {
    if (document.is_in_file("pipeline.drain_depth")) plan.drain_depth.reset();
    if (document.is_in_file("pipeline.credits")) plan.credits.reset();
    if (document.is_in_file("pipeline.chunks")) plan.chunks.reset();
  }
}

/// Makes what the policy does in virtual time the plan's own schedule. Everything else that the
/// configuration asks for says where the stages are, what they may hold and which backwards are split.
void ask_policy(Config& config) {
  PlanConfig& plan = config.plan;
  Plan shape;
  try {
    shape = derive_plan(plan);
  } catch (const ConfigError&) {
    return;  // plan_of will say it
  }
  try {
    PolicyChild child(config.policy->command);
    plan.custom = Schedule{order_of(simulate_policy(shape, child)), shape.rank_of, {}};
  } catch (const std::exception& error) {
    throw UsageError(config.places.at("policy"), error.what());
  }
  plan.drain_depth.reset();
  plan.credits.reset();
  plan.chunks.reset();
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
  if (memory.cap && memory.per_microbatch.empty() && memory.fixed.empty()) {
    section.reject("cap",
                   "memory.per_microbatch or memory.fixed beside it, for it to be held against");
  }
  section.finish();
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

/// Weights, gradients and momentum of a perceptron.
double bytes_of(const ModelConfig& model) {
  double numbers = 0;
  for (std::size_t layer = 0; layer + 1 < model.widths.size(); ++layer) {
    const auto outputs = static_cast<double>(model.widths[layer + 1]);
    numbers += (static_cast<double>(model.widths[layer]) + 1) * outputs;
  }
  return 3 * sizeof(float) * numbers;
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  // A directory opens like a file, and throws when it is read.
  if (file && !std::filesystem::is_directory(path)) {
    text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  } else {
    file.setstate(std::ios::failbit);
  }
  if (!file)
    throw UsageError(path.string(),
                     "cannot be read; expected a file that is there and that you may read");
  return text;
}

Config read_config(const std::optional<std::filesystem::path>& file,
                   std::span<const Override> overrides) {
  Config config = file ? parse_config(read_file(*file), file->string(), overrides)
                       : parse_config("", "", overrides);
  if (file) config.files.push_back(*file);
  if (config.policy && config.findings.empty()) ask_policy(config);
  return config;
}

Config parse_config(std::string_view text, const std::string& name,
                    std::span<const Override> overrides) {
  Document document(text, name);
  for (const Override& given : overrides) document.set(given);
  Config config;
  config.name = name.empty() ? "sluice" : name;
  const std::filesystem::path folder = std::filesystem::path(name).parent_path();
  const BatchSection batch = read_batch(document);
  config.devices = read_devices(document);
  read_pipeline(document, batch, folder, config);
  config.replicas = replicas_of(batch, config.devices, config.plan);
  config.batch = batch_of(batch, config.replicas, config.plan.microbatches);
  read_costs(document, config.plan.costs);
  if (config.batch && config.plan.microbatches >= 1) {
    price_short_microbatch(*config.batch, config.plan.microbatches, config.plan.costs);
  }
  read_memory(document, config.plan.memory);
  config.model = read_model(document);
  read_train(document, config.train, folder);
  read_record(document, config.record);
  document.finish();
  config.places = document.places();
  return config;
}

void keep_inputs(std::span<const std::filesystem::path> files,
                 const std::optional<std::filesystem::path>& output, std::string_view option) {
  if (!output) return;
  for (const std::filesystem::path& file : files) {
    std::error_code neither;  // when one of them is not there they are not the same
    if (!std::filesystem::equivalent(file, *output, neither)) continue;
    throw UsageError(option, fmt::format("{} would overwrite {}, which it is made from; expected "
                                         "another file",
                                         output->string(), file.string()));
  }
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
  if (config.model) {
    // Before any of it is taken: a system that promises more than it has kills whom it likes.
    const double bytes = bytes_of(*config.model);
    const double there =
        static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
    if (there > 0 && bytes > there) {
      constexpr double gib = 1 << 30;
      const auto place = config.places.find("widths");
      errors.push_back(error_line(
          place == config.places.end() ? config.name : place->second,
          fmt::format("model.widths = [{}]: expected weights, gradients and momentum to fit into "
                      "the {:.1f} GiB of memory here, found {:.1f} GiB; make the layers narrower",
                      fmt::join(config.model->widths, ", "), there / gib, bytes / gib)));
    }
  }
  const bool here = !config.batch || (config.batch->replicas == 1 &&
                                      config.batch->accumulation == 1 && !config.batch->ragged);
  if (!here) {
    errors.push_back(error_line(
        config.name, fmt::format("batch.replicas = {}, batch.accumulation = {}: expected 1, and "
                                 "whole microbatches: sluice train runs one pipeline, an "
                                 "update a step",
                                 config.batch->replicas, config.batch->accumulation)));
  }
  if (!errors.empty()) throw UsageError(std::move(errors));
}

void throw_rejected(const Config& config, std::vector<Finding> findings) {
  std::vector<std::string> lines;
  lines.reserve(findings.size());
  for (const Finding& finding : findings) {
    const auto place = config.places.find(finding.key);
    lines.push_back(error_line(place == config.places.end() ? config.name : place->second,
                               fmt::format("{}: {}", finding.rule, finding.message)));
  }
  throw RejectedConfig(std::move(lines), std::move(findings));
}

/// A policy may hold less than it was allowed to.
void warn_of_depth(const PolicyConfig& policy, Plan& plan) {
  if (!policy.allowed_depth || *policy.allowed_depth == plan.drain_depth) return;
  Finding finding;
  finding.rule = "drain-depth";
  finding.severity = Severity::warning;
  finding.key = "drain_depth";
  finding.expected = std::to_string(plan.drain_depth);
  finding.found = std::to_string(*policy.allowed_depth);
  finding.message = fmt::format(
      "drain_depth = {} is what the policy may do, and its order has W = {}: what is shown and run "
      "is "
      "its order",
      *policy.allowed_depth, plan.drain_depth);
  plan.findings.push_back(std::move(finding));
}

Plan plan_of(const Config& config) {
  std::vector<Finding> findings = config.findings;
  const auto keep = [&findings](std::optional<Finding> finding) {
    if (finding) findings.push_back(*std::move(finding));
  };
  if (findings.empty()) {
    if (config.batch && config.plan.microbatches >= 1) {
      keep(check_batch(*config.batch, config.plan.microbatches));
      keep(check_ramp(*config.batch, config.batch->ramp));
    }
    try {
      Plan plan = derive_plan(config.plan);
      if (config.devices) keep(check_devices(*config.devices, config.replicas, plan.rank_of));
      if (findings.empty()) {
        if (config.policy) warn_of_depth(*config.policy, plan);
        return plan;
      }
    } catch (const ConfigError& error) {
      findings.insert(findings.begin(), error.findings().begin(), error.findings().end());
    }
  }
  throw_rejected(config, std::move(findings));
}

}  // namespace sluice::tools
