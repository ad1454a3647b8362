#include <sluice/fuzz/scenarios.hpp>

#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include <sluice/finding.hpp>
#include <sluice/fuzz/shapes.hpp>
#include <sluice/replay/pipeline_explorer.hpp>

namespace sluice {
std::ostream& operator<<(std::ostream& out, const PlanConfig& config) {
  return out << replay::options_of(config);
}
}  // namespace sluice

namespace sluice::replay {

std::ostream& operator<<(std::ostream& out, const Scenario& scenario) {
  return out << to_string(scenario);
}
std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << to_string(fault); }

}  // namespace sluice::replay

namespace sluice::fuzz {
namespace {

bool has_plan(const PlanConfig& config) {
  try {
    derive_plan(config);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

std::vector<Time> times(int count, Time least) {
  std::vector<Time> drawn;
  drawn.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) drawn.push_back(*gen_time(least));
  return drawn;
}

PlanConfig any_config() {
  PlanConfig config;
  config.schedule =
      static_cast<ScheduleName>(*rc::gen::inRange(0, static_cast<int>(ScheduleName::custom)));
  const bool any_chunks =
      config.schedule == ScheduleName::interleaved || config.schedule == ScheduleName::looped_bfs;
  if (any_chunks) config.chunks = *rc::gen::inRange(1, 4);
  config.stages = *rc::gen::inRange(1, 5) * config.chunks.value_or(default_chunks(config.schedule));
  config.microbatches = *rc::gen::inRange(1, 9);
  if (config.schedule == ScheduleName::dualpipe_v) config.microbatches += config.stages;
  if (config.schedule == ScheduleName::drain) {
    if (*rc::gen::arbitrary<bool>()) config.order = OrderMode::adaptive;
    if (*rc::gen::arbitrary<bool>()) {
      config.credits.emplace();
      for (int s = 0; s < config.stages; ++s) {
        config.credits->push_back(*rc::gen::inRange(1, config.microbatches + 2));
      }
    } else {
      config.drain_depth = *rc::gen::inRange(0, config.stages + config.microbatches);
    }
  }
  const Time least = Time::from_units(0.1);
  if (*rc::gen::arbitrary<bool>()) config.costs.forward = times(config.stages, least);
  if (*rc::gen::arbitrary<bool>()) config.costs.backward = times(config.stages, least);
  if (config.stages > 1 && *rc::gen::arbitrary<bool>()) {
    config.costs.link = times(config.stages - 1, Time());
  }
  if (*rc::gen::arbitrary<bool>()) config.slots = *rc::gen::inRange(0, 4);
  return config;
}

}  // namespace

rc::Gen<PlanConfig> gen_config() {
  return rc::gen::suchThat(rc::gen::exec([] {
                             PlanConfig config = any_config();
                             if (config.slots && !has_plan(config)) config.slots.reset();
                             return config;
                           }),
                           has_plan);
}

rc::Gen<replay::Fault> gen_fault(const Plan& plan) {
  std::vector<replay::Fault> all;
  for (int k = 0; k <= static_cast<int>(replay::Fault::Kind::drop); ++k) {
    replay::Fault fault;
    fault.kind = static_cast<replay::Fault::Kind>(k);
    for (const auto& actions : plan.order) {
      for (const Action& action : actions) {
        fault.action = action;
        if (can_strike(fault, plan)) all.push_back(fault);
      }
    }
  }
  return rc::gen::elementOf(std::move(all));
}

rc::Gen<replay::Scenario> gen_scenario() {
  return rc::gen::exec([] {
    replay::Scenario scenario;
    scenario.config = *gen_config();
    scenario.suspends = *rc::gen::arbitrary<bool>();
    if (*rc::gen::arbitrary<bool>()) {
      scenario.faults.push_back(*gen_fault(derive_plan(scenario.config)));
    }
    return scenario;
  });
}

std::string explored(const replay::Scenario& scenario, std::uint64_t seed, int orders) {
  replay::PipelineExploreOptions options;
  options.seed = seed;
  options.runs = orders;
  const auto result = explore_pipeline(scenario, options);
  if (result.failures.empty()) return "";
  const replay::PipelineFailure& failure = result.failures.front();
  return fmt::format("{}\nsmallest: {}\nagain: sluice replay {}", failure.text,
                     to_string(failure.token.scenario), to_string(failure.token));
}

}  // namespace sluice::fuzz
