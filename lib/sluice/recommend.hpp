// Which W to take: the knee where more memory buys no more time.
//
// Called by whoever shows or tunes a plan; it simulates the law for every W up to 32 and for some
// dozens beyond, so it is not part of deriving one. Pure function; any executor.
#pragma once

#include <string>

#include <sluice/plan.hpp>

namespace sluice {

struct Recommendation {
  int drain_depth = 0;
  std::string why;
};

/// The smallest W tried whose makespan is within 1% of the best that fits under the memory cap, for
/// the law with the shape, costs and memory of `config`; its schedule, W and credits do not matter.
/// Throws ConfigError when the rest of `config` has errors, or not even W = 0 fits.
Recommendation recommend_drain_depth(const PlanConfig& config);

}  // namespace sluice
