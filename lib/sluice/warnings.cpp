#include <sluice/warnings.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include <sluice/config_finding.hpp>
#include <sluice/law.hpp>

namespace sluice {
namespace {

/// Which M to cut the same batch into, when every action costs something extra: more and smaller
/// microbatches fill the pipe better, and cost more of it.
std::string priced_cut_of(const Plan& plan) {
  const auto credits = law::credits(plan.stages, plan.stages - 1);
  SimulationOptions options;
  options.detail = Detail::metrics;
  const auto makespan_with = [&](int times) {
    Costs costs = plan.costs;
    for (auto* list : {&costs.forward, &costs.backward}) {
      for (Time& time : *list) time = Time::from_millionths(time.millionths / times);
    }
    return simulate_law(plan.stages, plan.microbatches * times, credits, costs, options).makespan;
  };
  const Time now = makespan_with(1);
  Time best = now;
  Time least;  // of the finer cuts
  int finer = 1;
  for (int times = 2; std::int64_t{plan.microbatches} * times <= 4 * std::int64_t{plan.stages};
       times *= 2) {
    const Time makespan = makespan_with(times);
    if (least == Time() || makespan < least) least = makespan;
    if (makespan >= best) continue;
    best = makespan;
    finer = times;
  }
  const std::string overhead = fmt::format("with overhead = {}", plan.costs.overhead.units());
  if (finer > 1) {
    return fmt::format("cut the batch into {} smaller ones, which takes {} instead of {} {}",
                       plan.microbatches * finer, best.units(), now.units(), overhead);
  }
  return fmt::format(
      "smaller ones would not help {}: the same batch in more of them takes {} at "
      "best instead of {}; a larger batch would",
      overhead, least.units(), now.units());
}

}  // namespace

std::optional<Finding> check_fill(const Plan& plan) {
  // One stage has nothing to fill.
  if (plan.microbatches > plan.stages || plan.stages == 1) return std::nullopt;
  std::string advice = fmt::format("expected microbatches well above {}, try {}", plan.stages,
                                   4 * std::int64_t{plan.stages});
  if (plan.costs.overhead > Time() && plan.costs.sizes.empty()) advice = priced_cut_of(plan);
  return config_warning(
      "fill", "microbatches", fmt::format("well above {}", plan.stages),
      std::to_string(plan.microbatches),
      fmt::format("microbatches = {} with stages = {}: the pipeline only fills and "
                  "drains, there is no steady state, and {:.0f}% of the makespan is "
                  "bubble; {}",
                  plan.microbatches, plan.stages, 100 * plan.bubble_of_makespan, advice));
}

std::optional<Finding> check_drain_depth(const Plan& plan, Time at_one_f_one_b) {
  const int one_f_one_b = plan.stages - 1;
  const Time makespan = plan.timeline.makespan;
  if (plan.drain_depth < std::min(one_f_one_b, plan.microbatches - 1)) {
    return config_warning(
        "drain-depth", "drain_depth", fmt::format("{} or more", one_f_one_b),
        std::to_string(plan.drain_depth),
        fmt::format("drain_depth = {} with stages = {}: at most {} microbatches are under way, so "
                    "the steady state has {:.2f} of the throughput of drain_depth = {} (makespan "
                    "{} instead of {}); raise it to {} unless memory forbids",
                    plan.drain_depth, plan.stages, plan.drain_depth + 1,
                    static_cast<double>(plan.drain_depth + 1) / plan.stages, one_f_one_b,
                    makespan.units(), at_one_f_one_b.units(), one_f_one_b));
  }
  if (plan.drain_depth > one_f_one_b && makespan >= at_one_f_one_b) {
    return config_warning(
        "drain-depth", "drain_depth", std::to_string(one_f_one_b), std::to_string(plan.drain_depth),
        fmt::format("drain_depth = {} with stages = {}: more than {} buys no time here "
                    "(makespan {} either way), only memory is used (stage 0 holds up "
                    "to {} microbatches instead of {}); lower it to {}",
                    plan.drain_depth, plan.stages, one_f_one_b, at_one_f_one_b.units(),
                    std::min(plan.credits[0], plan.microbatches),
                    std::min(plan.stages, plan.microbatches), one_f_one_b));
  }
  return std::nullopt;
}

}  // namespace sluice
