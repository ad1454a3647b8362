// Tune: which schedule, depth, number of microbatches and partition make a step shortest.
//
// The search goes from the partition that promises most to the one that promises least, and stops
// where a lower bound says that nothing better can follow, or when its budget of simulated actions is
// spent. The budget is not a time, so the same request has the same answer everywhere. Called by
// whoever sets up a training run; pure function, any executor.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <sluice/plan.hpp>

namespace sluice {

struct TuneRequest {
  int ranks = 1;
  int microbatches = 1;  ///< the M that `costs` and `memory` are for
  int layers = 1;        ///< consecutive parts that can be put on stages, at least one a rank
  /// By layer instead of by stage; one element stands for all. `link` is one number or one for each
  /// edge between ranks. With other microbatches a layer's time and bytes shrink or grow with their
  /// samples; links and overhead do not. With `sizes`, M stays as it is.
  Costs costs;
  Memory memory;             ///< by layer too; `cap` for each rank
  std::optional<int> slots;  ///< as in PlanConfig
  /// Every M to consider, each 1 or more; empty: `microbatches` and its halves and doubles up to 4x.
  std::vector<int> choices;
};

/// One plan: what to configure, and what comes of it.
struct Tuned {
  PlanConfig config;           ///< derive_plan(config) gives `makespan`
  std::vector<int> partition;  ///< layers of each stage
  Time makespan;
  std::int64_t most_bytes = 0;  ///< of the rank that needs most; 0 when no bytes are given
};

struct Tuning {
  /// The best of each schedule that fits, best first; of equal ones the one that needs least memory.
  std::vector<Tuned> best;
  /// No schedule ends sooner, with any of the partitions and numbers of microbatches considered: the
  /// largest over ranks of shortest way in, its work, shortest way out.
  Time lower_bound;
  std::int64_t tried = 0;  ///< timelines
  /// Whether every partition was tried, or cannot lead to a better plan. Otherwise the budget was
  /// spent, or there were too many to look at.
  bool complete = true;
};

/// `progress` is told the share that is done, now and then; may be empty. Throws ConfigError when
/// the request has errors; `best` is empty when nothing fits the memory.
Tuning tune(const TuneRequest& request, const std::function<void(double)>& progress = {});

}  // namespace sluice
