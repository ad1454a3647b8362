#include <sluice/recommend.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include <sluice/checks.hpp>
#include <sluice/law.hpp>

namespace sluice {
namespace {

// Some seconds' worth of actions, however large the shape.
constexpr std::int64_t most_actions = 40'000'000;

std::int64_t of_stage(const std::vector<std::int64_t>& list, std::size_t stage) {
  return list.empty() ? 0 : list.size() == 1 ? list.front() : list[stage];
}

/// What a forward and a backward take together, where every stage takes the same for every microbatch and
/// links are free; else nothing.
std::optional<Time> equal_pair(const PlanConfig& config, const Costs& costs) {
  const auto equal = [](const std::vector<Time>& list) {
    return std::all_of(list.begin(), list.end(), [&](Time each) { return each == list.front(); });
  };
  const bool free_links =
      std::all_of(costs.link.begin(), costs.link.end(), [](Time each) { return each == Time(); });
  const Time forward = costs.forward.front() + costs.overhead;
  const Time backward = costs.backward.front() + costs.overhead;
  const bool known = equal(costs.forward) && equal(costs.backward) && free_links &&
                     costs.sizes.empty() && !config.slots && forward > Time() && backward > Time();
  return known ? std::optional(forward + backward) : std::nullopt;
}

/// The law's makespan for equal stages. Below S-1 it is Little's law: W + 1 in flight for each round trip.
Time makespan_of_equal(int stages, int microbatches, int drain_depth, Time pair) {
  if (drain_depth >= stages - 1) return (std::int64_t{microbatches} + stages - 1) * pair;
  const std::int64_t in_flight = std::int64_t{drain_depth} + 1;
  const std::int64_t trips = (microbatches - 1) / in_flight;
  const std::int64_t rest = (microbatches - 1) % in_flight;
  return (trips * stages + rest + stages) * pair;
}

/// The law in virtual time; where the stages are equal the same without a timeline.
Timeline timeline_of(const PlanConfig& config, const Costs& costs, int drain_depth) {
  const auto credits = law::credits(config.stages, drain_depth);
  if (const auto pair = equal_pair(config, costs)) {
    Timeline timeline;
    timeline.makespan = makespan_of_equal(config.stages, config.microbatches, drain_depth, *pair);
    for (const int credit : credits)
      timeline.peak_held.push_back(std::min(config.microbatches, credit));
    return timeline;
  }
  SimulationOptions options;
  options.detail = Detail::metrics;
  options.slots = config.slots;
  return simulate_law(config.stages, config.microbatches, credits, costs, options);
}

/// Nothing when the law gets stuck with it, for want of slots.
std::optional<DepthPrice> price_of(const PlanConfig& config, const Costs& costs, int drain_depth) {
  DepthPrice price;
  price.drain_depth = drain_depth;
  try {
    const Timeline timeline = timeline_of(config, costs, drain_depth);
    price.makespan = timeline.makespan;
    for (std::size_t s = 0; s < timeline.peak_held.size(); ++s) {
      const int held = timeline.peak_held[s];
      price.most_held = std::max(price.most_held, held);
      price.most_bytes =
          std::max(price.most_bytes, of_stage(config.memory.fixed, s) +
                                         held * of_stage(config.memory.per_microbatch, s));
    }
  } catch (const StuckError&) {
    return std::nullopt;
  }
  return price;
}

/// The depths to try, ascending: every one at first, then in growing steps, and 1F1B. With unequal
/// stages a larger W can cost time (up to a fifth was seen), so there is nothing to bisect.
std::vector<int> candidates(const PlanConfig& config, int deepest) {
  const std::int64_t actions = 2 * std::int64_t{config.stages} * config.microbatches;
  const std::int64_t affordable = std::clamp<std::int64_t>(most_actions / actions, 4, 10'000);
  int finest = 16;  // steps of a sixteenth, or of a half where a timeline takes long
  const auto listed = [deepest](int steps) {
    std::vector<int> result;
    for (int depth = 0; depth <= deepest; depth += std::max(1, depth / steps)) {
      result.push_back(depth);
    }
    return result;
  };
  std::vector<int> result = listed(finest);
  while (finest > 1 && static_cast<std::int64_t>(result.size()) > affordable) {
    result = listed(finest /= 2);
  }
  // The last few doublings are all that a very large shape can pay for.
  const auto usual = config.stages - 1;
  const auto first =
      std::find_if(result.begin(), result.end(), [usual](int depth) { return 2 * depth >= usual; });
  if (static_cast<std::int64_t>(result.size()) > affordable) {
    result.erase(result.begin(), first);
    result.resize(std::min(result.size(), static_cast<std::size_t>(affordable)));
  }
  if (usual <= deepest) result.push_back(usual);
  result.push_back(deepest);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

/// The law for the shape of `config`, whatever its schedule is.
PlanConfig law_of(const PlanConfig& config) {
  PlanConfig law = config;
  law.schedule = ScheduleName::drain;
  law.order = OrderMode::adaptive;  // the law as it is, with whatever slots there are
  law.detail = Detail::metrics;
  law.drain_depth.reset();
  law.credits.reset();
  law.custom.reset();
  law.chunks.reset();
  return law;
}

}  // namespace

Recommendation recommend_drain_depth(const PlanConfig& config) {
  PlanConfig law = law_of(config);
  std::vector<Finding> errors = check_config(law);
  if (!errors.empty()) throw ConfigError(std::move(errors));
  const auto deepest = deepest_in_memory(law);
  if (!deepest) {
    law.drain_depth = 0;
    derive_plan(law);  // throws, naming the stage
  }
  const Costs costs = complete(law.costs, law.stages);
  Recommendation result;
  for (const int drain_depth : candidates(law, *deepest)) {
    if (auto price = price_of(law, costs, drain_depth)) result.prices.push_back(*price);
  }
  if (result.prices.empty()) {
    law.drain_depth = *deepest;
    law.memory.cap.reset();
    derive_plan(law);  // throws, naming the cycle
  }

  const Time best = std::min_element(result.prices.begin(), result.prices.end(),
                                     [](const DepthPrice& a, const DepthPrice& b) {
                                       return a.makespan < b.makespan;
                                     })
                        ->makespan;
  const auto found = std::find_if(
      result.prices.begin(), result.prices.end(),
      [best](const DepthPrice& price) { return price.makespan.units() <= 1.01 * best.units(); });
  result.drain_depth = found->drain_depth;
  const int usual = law.stages - 1;
  const double makespan = found->makespan.units();
  const bool capped =
      *deepest < law.microbatches + law.stages - 2 && result.drain_depth == *deepest;
  const std::string end = capped ? fmt::format("more does not fit under cap = {}", *law.memory.cap)
                                 : std::string("more buys less than 1%");
  const auto one_f_one_b =
      result.drain_depth == usual ? std::optional(*found) : price_of(law, costs, usual);
  if (result.drain_depth == usual) {
    result.why = fmt::format("{} is 1F1B, makespan {}; {}", usual, makespan, end);
  } else if (!one_f_one_b) {
    result.why = fmt::format("makespan {}; {}, which is 1F1B, gets stuck with slots = {}; {}",
                             makespan, usual, *law.slots, end);
  } else if (found->makespan == one_f_one_b->makespan) {
    result.why =
        fmt::format("makespan {}, the same as with {}, which is 1F1B; {}", makespan, usual, end);
  } else {
    result.why = fmt::format("makespan {} instead of {} with {}, which is 1F1B; {}", makespan,
                             one_f_one_b->makespan.units(), usual, end);
  }
  return result;
}

}  // namespace sluice
