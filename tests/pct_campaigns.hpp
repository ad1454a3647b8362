// Campaigns that measure how often a planted bug is found by PCT; SLUICE_CAMPAIGNS says how many, else 20.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include <sluice/replay/explorer.hpp>

namespace sluice::test {

struct PctCampaigns {
  int all = 0;
  int found = 0;
  std::int64_t bound = 0;  ///< the runs in which 99 % find it, of the last campaign
  std::int64_t most = 0;   ///< runs that one took

  bool as_promised() const { return found * 100 >= 99 * all; }
};

/// Each has as many runs as the bound for a bug of this depth says.
inline PctCampaigns pct_campaigns(const replay::Program& program, int depth) {
  const char* asked = std::getenv("SLUICE_CAMPAIGNS");
  PctCampaigns campaigns;
  campaigns.all = asked == nullptr ? 20 : std::atoi(asked);
  for (int campaign = 0; campaign < campaigns.all; ++campaign) {
    replay::ExploreOptions options;
    options.strategy = replay::StrategyName::pct;
    options.depth = depth;
    options.seed = static_cast<std::uint64_t>(campaign);
    options.runs = 1;
    const replay::Exploration one = replay::explore(program, options);
    campaigns.bound =
        replay::Pct::runs_for_99_percent(replay::Pct::bound(one.tasks, one.steps, depth));
    options.runs = campaigns.bound;
    const replay::Exploration run = replay::explore(program, options);
    campaigns.found += run.failures.empty() ? 0 : 1;
    campaigns.most = std::max(campaigns.most, run.runs);
  }
  return campaigns;
}

}  // namespace sluice::test
