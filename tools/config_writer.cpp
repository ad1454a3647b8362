// The other direction of config.cpp: a Config as the text that reads as the same Config.

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include <sluice/schedule_csv.hpp>

#include "config.hpp"

namespace sluice::tools {
namespace {

/// As TOML; one that stands for all stages as a plain number.
std::string list_of(const std::vector<Time>& times) {
  if (times.size() == 1) return fmt::format("{}", times.front().units());
  std::vector<double> units;
  units.reserve(times.size());
  for (const Time& time : times) units.push_back(time.units());
  return fmt::format("[{}]", fmt::join(units, ", "));
}

const char* name_of(replay::RecordingMode mode) {
  switch (mode) {
    case replay::RecordingMode::full: return "full";
    case replay::RecordingMode::verify: return "verify";
    case replay::RecordingMode::ring: return "ring";
  }
  return "";
}

}  // namespace

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
  word("schedule",
       plan.custom ? write_schedule_csv(*plan.custom) : std::string(to_string(plan.schedule)));
  word("order", plan.order == OrderMode::adaptive ? "adaptive" : "fixed");
  if (plan.credits) line("credits", fmt::format("[{}]", fmt::join(*plan.credits, ", ")));
  if (plan.chunks) line("chunks", *plan.chunks);
  if (plan.slots) line("slots", *plan.slots);

  text += "\n[costs]\n";
  if (!plan.costs.forward.empty()) line("forward", list_of(plan.costs.forward));
  if (!plan.costs.backward.empty()) line("backward", list_of(plan.costs.backward));
  if (!plan.costs.input_gradient.empty()) {
    line("input_grad", list_of(plan.costs.input_gradient));
  }
  if (!plan.costs.weight_gradient.empty()) {
    line("weight_grad", list_of(plan.costs.weight_gradient));
  }
  if (!plan.costs.link.empty()) line("link", list_of(plan.costs.link));
  line("overhead", plan.costs.overhead.units());
  if (!plan.costs.sizes.empty())
    line("sizes", fmt::format("[{}]", fmt::join(plan.costs.sizes, ", ")));

  const Memory& memory = plan.memory;
  text += "\n[memory]\n";
  if (!memory.per_microbatch.empty()) {
    line("per_microbatch", fmt::format("[{}]", fmt::join(memory.per_microbatch, ", ")));
  }
  if (!memory.fixed.empty()) line("fixed", fmt::format("[{}]", fmt::join(memory.fixed, ", ")));
  if (memory.cap) line("cap", *memory.cap);

  if (config.batch) {
    text += "\n[batch]\n";
    line("global", config.batch->global);
    line("micro", config.batch->micro);
    if (config.batch->accumulation != 1) line("accumulation", config.batch->accumulation);
    if (config.batch->replicas != 1) line("replicas", config.batch->replicas);
    if (config.batch->ragged) line("ragged", true);
    if (!config.batch->ramp.empty()) {
      line("ramp", fmt::format("[{}]", fmt::join(config.batch->ramp, ", ")));
    }
  }
  if (config.devices) {
    text += "\n[devices]\n";
    line("count", config.devices->count);
    if (!config.devices->groups.empty()) {
      line("groups", fmt::format("[{}]", fmt::join(config.devices->groups, ", ")));
    }
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
  const RecordConfig& record = config.record;
  if (record.off) word("mode", "off");
  if (record.mode) word("mode", name_of(*record.mode));
  if (record.file) word("file", record.file->string());
  line("ring_bytes", record.ring_bytes);
  line("overwrite", record.overwrite);
  word("on_error", record.go_on ? "continue" : "stop");
  line("sync_every", record.sync_every);
  line("payload", record.payload);
  return text;
}

}  // namespace sluice::tools
