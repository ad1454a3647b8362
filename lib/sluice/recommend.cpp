#include <sluice/recommend.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <sluice/checks.hpp>

namespace sluice {
namespace {

Time makespan_with(const PlanConfig& config, int drain_depth) {
  PlanConfig tried = config;
  tried.drain_depth = drain_depth;
  // No cap: what does not fit is not asked for, and W = S-1 is priced for comparison.
  tried.memory.cap.reset();
  return derive_plan(tried).timeline.makespan;
}

}  // namespace

Recommendation recommend_drain_depth(const PlanConfig& asked) {
  PlanConfig config = asked;
  config.schedule = ScheduleName::drain;
  config.order = OrderMode::adaptive;  // the law as it is, with whatever slots there are
  config.detail = Detail::metrics;
  config.drain_depth.reset();
  config.credits.reset();
  config.custom.reset();
  config.chunks.reset();
  std::vector<Finding> errors = check_config(config);
  if (!errors.empty()) throw ConfigError(std::move(errors));

  const int usual = config.stages - 1;
  const auto deepest = deepest_in_memory(config);
  if (!deepest) {
    config.drain_depth = 0;
    derive_plan(config);  // throws, naming the stage
  }
  // More W never costs time, so the first good one can be bisected.
  const Time best = makespan_with(config, *deepest);
  const auto good = [&](int drain_depth) {
    return makespan_with(config, drain_depth).units() <= 1.01 * best.units();
  };
  int bad = -1;
  int found = *deepest;
  while (found - bad > 1) {
    const int middle = bad + (found - bad) / 2;
    (good(middle) ? found : bad) = middle;
  }

  Recommendation result;
  result.drain_depth = found;
  const double makespan = makespan_with(config, found).units();
  const bool capped = *deepest < config.microbatches + config.stages - 2 && found == *deepest;
  const std::string end = capped
                              ? fmt::format("more does not fit under cap = {}", *config.memory.cap)
                              : std::string("more buys less than 1%");
  if (found == usual) {
    result.why = fmt::format("{} is 1F1B, makespan {}; {}", found, makespan, end);
  } else {
    result.why = fmt::format("makespan {} instead of {} with {}, which is 1F1B; {}", makespan,
                             makespan_with(config, usual).units(), usual, end);
  }
  return result;
}

}  // namespace sluice
