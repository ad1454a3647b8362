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

Recommendation recommend_drain_depth(const PlanConfig& config) {
  PlanConfig law = config;
  law.schedule = ScheduleName::drain;
  law.order = OrderMode::adaptive;  // the law as it is, with whatever slots there are
  law.detail = Detail::metrics;
  law.drain_depth.reset();
  law.credits.reset();
  law.custom.reset();
  law.chunks.reset();
  std::vector<Finding> errors = check_config(law);
  if (!errors.empty()) throw ConfigError(std::move(errors));

  const int usual = law.stages - 1;
  const auto deepest = deepest_in_memory(law);
  if (!deepest) {
    law.drain_depth = 0;
    derive_plan(law);  // throws, naming the stage
  }
  // More W never costs time, so the first good one can be bisected.
  const Time best = makespan_with(law, *deepest);
  const auto good = [&](int drain_depth) {
    return makespan_with(law, drain_depth).units() <= 1.01 * best.units();
  };
  int bad = -1;
  int found = *deepest;
  while (found - bad > 1) {
    const int middle = bad + (found - bad) / 2;
    (good(middle) ? found : bad) = middle;
  }

  Recommendation result;
  result.drain_depth = found;
  const double makespan = makespan_with(law, found).units();
  const bool capped = *deepest < law.microbatches + law.stages - 2 && found == *deepest;
  const std::string end = capped ? fmt::format("more does not fit under cap = {}", *law.memory.cap)
                                 : std::string("more buys less than 1%");
  if (found == usual) {
    result.why = fmt::format("{} is 1F1B, makespan {}; {}", found, makespan, end);
  } else {
    result.why = fmt::format("makespan {} instead of {} with {}, which is 1F1B; {}", makespan,
                             makespan_with(law, usual).units(), usual, end);
  }
  return result;
}

}  // namespace sluice
