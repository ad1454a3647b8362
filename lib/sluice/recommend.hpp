// Which W to take: the knee where more memory buys no more time.
//
// Called by whoever shows or tunes a plan; it simulates the law for every W up to 32 and for some
// dozens beyond (fewer where a timeline is long), so it is not part of deriving one. Pure function;
// any executor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sluice/plan.hpp>

namespace sluice {

/// What one W costs.
struct DepthPrice {
  int drain_depth = 0;
  Time makespan;
  int most_held = 0;            ///< by the stage that holds most
  std::int64_t most_bytes = 0;  ///< by the stage that needs most; 0 when no bytes are given
};

struct Recommendation {
  int drain_depth = 0;
  std::string why;
  std::vector<DepthPrice> prices;  ///< of every W tried, ascending
};

/// The smallest W tried whose makespan is within 1% of the best that fits under the memory cap, for
/// the law with the shape, costs, slots and memory of `config`; its schedule, W and credits do not
/// matter. A W with which the slots get the law stuck is no choice. Throws ConfigError when the rest
/// of `config` has errors, not even W = 0 fits, or every W gets stuck.
Recommendation recommend_drain_depth(const PlanConfig& config);

}  // namespace sluice
