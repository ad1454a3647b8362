#include <sluice/metrics.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace sluice {

StepMetrics metrics_of(std::vector<RankMetrics> ranks) {
  StepMetrics metrics;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  std::int64_t busy = 0;
  for (const RankMetrics& rank : ranks) {
    if (rank.actions == 0) continue;
    first = std::min(first, rank.first_enter_ns);
    last = std::max(last, rank.last_exit_ns);
    busy += rank.busy_ns;
  }
  if (last > first) {
    metrics.makespan_ns = last - first;
    metrics.bubble_measured =
        1.0 - static_cast<double>(busy) /
                  (static_cast<double>(ranks.size()) * static_cast<double>(metrics.makespan_ns));
  }
  metrics.ranks = std::move(ranks);
  return metrics;
}

}  // namespace sluice
