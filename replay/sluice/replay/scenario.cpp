#include <sluice/replay/scenario.hpp>

#include <array>
#include <utility>

#include <fmt/format.h>

#include <sluice/finding.hpp>
#include <sluice/random.hpp>

namespace sluice::replay {
namespace {

std::string list_of(const std::vector<Time>& times) {
  std::vector<double> units;
  units.reserve(times.size());
  for (const Time time : times) units.push_back(time.units());
  return fmt::format("{}", fmt::join(units, ","));
}

}  // namespace

std::string options_of(const PlanConfig& config) {
  std::string text = fmt::format("-S {} -M {}", config.stages, config.microbatches);
  if (config.drain_depth) text += fmt::format(" -W {}", *config.drain_depth);
  if (config.custom) {
    text += " --schedule FILE";
  } else if (config.schedule != ScheduleName::drain) {
    text += fmt::format(" --schedule {}", to_string(config.schedule));
  }
  if (config.chunks) text += fmt::format(" --chunks {}", *config.chunks);
  if (config.order == OrderMode::adaptive) text += " --order adaptive";
  if (config.credits) text += fmt::format(" --credits {}", fmt::join(*config.credits, ","));
  if (config.slots) text += fmt::format(" --slots {}", *config.slots);
  const std::array<std::pair<const char*, const std::vector<Time>*>, 5> lists{
      {{"--forward", &config.costs.forward},
       {"--backward", &config.costs.backward},
       {"--input-grad", &config.costs.input_gradient},
       {"--weight-grad", &config.costs.weight_gradient},
       {"--link", &config.costs.link}}};
  for (const auto& [option, times] : lists) {
    if (!times->empty()) text += fmt::format(" {} {}", option, list_of(*times));
  }
  if (config.costs.overhead > Time()) {
    text += fmt::format(" --overhead {}", config.costs.overhead.units());
  }
  return text;
}

std::string to_string(const Scenario& scenario) {
  std::string text = options_of(scenario.config);
  if (scenario.suspends) text += ", stages suspend";
  for (const Fault& fault : scenario.faults) text += ", " + to_string(fault);
  return text;
}

std::string expansion_of(const Scenario& scenario) {
  const Plan plan = derive_plan(scenario.config);
  std::string text = fmt::format(
      "{}, {} order, S={} on {} ranks (V={}), M={}, W={}, credits {}, gate {}, slots {}",
      to_string(plan.schedule), plan.order_mode == OrderMode::fixed ? "fixed" : "adaptive",
      plan.stages, plan.ranks, plan.stages / plan.ranks, plan.microbatches, plan.drain_depth,
      fmt::join(plan.credits, ","), plan.gate,
      plan.slots ? std::to_string(*plan.slots) : "never blocking");
  const std::array<std::pair<const char*, const std::vector<Time>*>, 5> lists{
      {{"forward", &plan.costs.forward},
       {"backward", &plan.costs.backward},
       {"input gradient", &plan.costs.input_gradient},
       {"weight gradient", &plan.costs.weight_gradient},
       {"link", &plan.costs.link}}};
  for (const auto& [name, times] : lists) {
    if (!times->empty()) text += fmt::format(", {} {}", name, list_of(*times));
  }
  text += fmt::format(", overhead {}, stages {}", plan.costs.overhead.units(),
                      scenario.suspends ? "suspend" : "do not suspend");
  if (scenario.faults.empty()) text += ", no fault";
  for (const Fault& fault : scenario.faults) text += ", " + to_string(fault);
  return text;
}

namespace {

/// Draws until there is a plan of it: not every schedule takes every shape.
class Draw {
 public:
  Draw(std::uint64_t seed, std::int64_t run) : random_(seed, run, "explore", 0, "swarm") {}

  PlanConfig config() {
    for (;;) {
      PlanConfig config = shape();
      try {
        const Plan plan = derive_plan(config);
        if (below(2) == 0) return config;
        config.slots = plan.slots_safe.value_or(1) + below(3);
        derive_plan(config);
        return config;
      } catch (const ConfigError&) {
        continue;
      }
    }
  }
  int below(int bound) {
    return static_cast<int>(random_.below(static_cast<std::uint32_t>(bound)));
  }

 private:
  PlanConfig shape() {
    PlanConfig config;
    config.schedule = static_cast<ScheduleName>(below(static_cast<int>(ScheduleName::custom)));
    const int chunks = default_chunks(config.schedule);
    const bool any_chunks =
        config.schedule == ScheduleName::interleaved || config.schedule == ScheduleName::looped_bfs;
    const int used = any_chunks ? 1 + below(3) : chunks;
    if (used != chunks) config.chunks = used;
    config.stages = used * (1 + below(5));
    config.microbatches = 1 + below(12);
    if (config.schedule == ScheduleName::drain) {
      if (below(2) == 0) config.order = OrderMode::adaptive;
      if (below(3) == 0) {
        config.credits.emplace();
        for (int s = 0; s < config.stages; ++s) {
          config.credits->push_back(1 + below(config.microbatches + 1));
        }
      } else {
        config.drain_depth = below(config.stages + config.microbatches + 1);
      }
    }
    Costs& costs = config.costs;
    costs.forward = times(config.stages, 1);
    costs.backward = times(config.stages, 1);
    if (below(2) == 0) {
      costs.input_gradient = times(config.stages, 1);
      costs.weight_gradient = times(config.stages, 1);
    }
    if (config.stages > 1 && below(2) == 0) costs.link = times(config.stages - 1, 0);
    if (below(4) == 0) costs.overhead = time(0);
    return config;
  }
  Time time(int least) { return Time::from_units(0.5 * (2 * least + below(7))); }
  /// One for all, or each its own.
  std::vector<Time> times(int count, int least) {
    std::vector<Time> drawn(below(2) == 0 ? 1 : static_cast<std::size_t>(count));
    for (Time& each : drawn) each = time(least);
    return drawn;
  }

  KeyedRandom random_;
};

}  // namespace

Scenario draw_scenario(std::uint64_t seed, std::int64_t run, std::span<const Fault::Kind> kinds) {
  Draw draw(seed, run);
  Scenario scenario;
  scenario.config = draw.config();
  scenario.suspends = draw.below(2) == 0;
  if (kinds.empty() || draw.below(4) == 0) return scenario;
  const Plan plan = derive_plan(scenario.config);
  const Fault::Kind kind =
      kinds[static_cast<std::size_t>(draw.below(static_cast<int>(kinds.size())))];
  if (can_strike(kind, plan)) scenario.faults.push_back(draw_fault(kind, plan, seed, run));
  return scenario;
}

}  // namespace sluice::replay
