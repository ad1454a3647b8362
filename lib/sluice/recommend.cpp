#include <sluice/recommend.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

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

/// The depths to try, ascending: every one at first, then in steps of a sixteenth, and 1F1B. With
/// unequal stages a larger W can cost time (up to a fifth was seen), so there is nothing to bisect.
std::vector<int> candidates(int usual, int deepest) {
  std::vector<int> result;
  for (int depth = 0; depth <= deepest; depth += std::max(1, depth / 16)) result.push_back(depth);
  if (usual <= deepest) result.push_back(usual);
  result.push_back(deepest);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
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
  const auto tried = candidates(usual, *deepest);
  std::vector<Time> makespans;
  makespans.reserve(tried.size());
  for (const int drain_depth : tried) makespans.push_back(makespan_with(law, drain_depth));
  const Time best = *std::min_element(makespans.begin(), makespans.end());
  const auto first = std::find_if(makespans.begin(), makespans.end(), [best](Time makespan) {
    return makespan.units() <= 1.01 * best.units();
  });
  const int found = tried[static_cast<std::size_t>(first - makespans.begin())];

  Recommendation result;
  result.drain_depth = found;
  const double makespan = first->units();
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
