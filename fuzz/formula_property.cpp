// What is known of every listed schedule in closed form, at any number of ranks: makespan, idle time inside a
// rank's own span, forwards in the warm-up, peak held. All with equal stages; a forward, an input gradient and
// a weight gradient take one unit each, and batches fill the pipe.
#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sluice/fuzz/property.hpp>
#include <sluice/plan.hpp>

namespace sluice {
namespace {

struct Listed {
  int ranks = 1;
  int chunks = 1;
  int microbatches = 1;
  Plan plan;

  int stages() const { return ranks * chunks; }
  /// Work of a rank, in units.
  int work() const { return 3 * microbatches * chunks; }
  int span() const { return static_cast<int>(plan.timeline.makespan.units()); }
  int idle_inside(int rank) const {
    return static_cast<int>(plan.timeline.ranks[static_cast<std::size_t>(rank)].idle().units());
  }
  std::vector<std::int64_t> peaks() const { return peak_of_ranks(plan.order); }
  /// Forwards of a rank, of whatever stage, before its first backward.
  int warm_up(int rank) const {
    const auto& order = plan.order[static_cast<std::size_t>(rank)];
    return static_cast<int>(
        std::find_if(order.begin(), order.end(),
                     [](const Action& action) { return action.phase != Phase::forward; }) -
        order.begin());
  }
};

void showValue(const Listed& listed, std::ostream& out) {
  out << fmt::format("plan --schedule {} -S {} -M {} --chunks {} --backward 2",
                     to_string(listed.plan.schedule), listed.stages(), listed.microbatches,
                     listed.chunks);
}

/// `fill`: microbatches for every rank at least; `whole_groups`: a multiple of the ranks.
Listed any(ScheduleName name, int most_chunks, int fill, bool whole_groups) {
  return *rc::gen::exec([=] {
    Listed listed;
    listed.chunks = most_chunks == 0 ? default_chunks(name) : *rc::gen::inRange(1, most_chunks + 1);
    listed.ranks = *rc::gen::inRange(1, 7);
    listed.microbatches = whole_groups
                              ? listed.ranks * *rc::gen::inRange(fill, fill + 4)
                              : *rc::gen::inRange(fill * listed.ranks, fill * listed.ranks + 12);
    PlanConfig config;
    config.schedule = name;
    config.stages = listed.stages();
    config.chunks = listed.chunks;
    config.microbatches = listed.microbatches;
    config.costs.backward = {Time::from_units(2)};
    listed.plan = derive_plan(config);
    return listed;
  });
}

SLUICE_PROPERTY(Formula, InterleavedDividesTheBubbleByItsChunks) {
  const Listed it = any(ScheduleName::interleaved, 4, 1, true);
  // Whole-rank times are V chunks long: (P-1)(tF+tB)/V of them.
  RC_ASSERT(it.span() == it.work() + 3 * (it.ranks - 1));
  const auto peaks = it.peaks();
  for (int r = 0; r < it.ranks; ++r) {
    const int forwards = it.microbatches * it.chunks;
    const int warm_up = std::min(forwards, 2 * (it.ranks - 1 - r) + (it.chunks - 1) * it.ranks);
    // The steady phase begins with a forward, where there is one left.
    RC_ASSERT(it.warm_up(r) == std::min(forwards, warm_up + 1));
    RC_ASSERT(peaks[static_cast<std::size_t>(r)] == std::min(forwards, warm_up + 1));
  }
}

SLUICE_PROPERTY(Formula, LoopedBfsHasTheSameBubbleAndHoldsEverything) {
  const Listed it = any(ScheduleName::looped_bfs, 4, 1, false);
  RC_ASSERT(it.span() == it.work() + 3 * (it.ranks - 1));
  for (const std::int64_t peak : it.peaks()) RC_ASSERT(peak == it.microbatches * it.chunks);
  for (const auto& of_rank : it.plan.order) {
    const auto half = of_rank.size() / 2;
    for (std::size_t k = 0; k < half; ++k) {
      const Action& forward = of_rank[k];
      const Action& backward = of_rank[of_rank.size() - 1 - k];
      RC_ASSERT(backward == Action(forward.stage, Phase::backward, forward.mb));
    }
  }
}

SLUICE_PROPERTY(Formula, ZbH1FillsTwoThirdsOfTheBubbleInTheMemoryOf1F1B) {
  const Listed it = any(ScheduleName::zb_h1, 3, 2, true);
  // (P-1)(tF+tI-tW)/V in whole-rank times.
  RC_ASSERT(it.span() == it.work() + it.ranks - 1);
  for (const std::int64_t peak : it.peaks()) {
    RC_ASSERT(peak == std::min(it.microbatches * it.chunks, it.stages()));
  }
  for (int r = 0; r < it.ranks; ++r) RC_ASSERT(it.idle_inside(r) == it.ranks - 1 - r);
}

SLUICE_PROPERTY(Formula, ZbH2HasNoIdleTimeInsideARanksSpan) {
  const Listed it = any(ScheduleName::zb_h2, 0, 2, false);
  RC_ASSERT(it.span() == it.work() + it.ranks - 1);
  for (int r = 0; r < it.ranks; ++r) {
    RC_ASSERT(it.idle_inside(r) == 0);
    RC_ASSERT(it.warm_up(r) == std::min(it.microbatches, 2 * (it.ranks - r) - 1));
    RC_ASSERT(it.peaks()[static_cast<std::size_t>(r)] <= 2 * it.ranks);
  }
}

SLUICE_PROPERTY(Formula, ZbVHasNoIdleTimeInTheMemoryOf1F1B) {
  const Listed it = any(ScheduleName::zb_v, 0, 2, false);
  RC_ASSERT(it.span() == it.work() + it.ranks - 1);
  for (int r = 0; r < it.ranks; ++r) {
    RC_ASSERT(it.idle_inside(r) == 0);
    RC_ASSERT(it.warm_up(r) == it.stages());
  }
  for (const std::int64_t peak : it.peaks()) RC_ASSERT(peak == it.stages());
}

SLUICE_PROPERTY(Formula, ZbVOfAShortBatchLeavesOutWhatALongOneRuns) {
  const int ranks = *rc::gen::inRange(1, 7);
  const int microbatches = *rc::gen::inRange(1, 2 * ranks);
  Schedule whole = listed_schedule(ScheduleName::zb_v, 2 * ranks, 2 * ranks - 1, 2);
  for (auto& of_rank : whole.order) {
    std::erase_if(of_rank, [=](const Action& action) { return action.mb.value >= microbatches; });
  }
  RC_ASSERT(listed_schedule(ScheduleName::zb_v, 2 * ranks, microbatches, 2).order == whole.order);
}

SLUICE_PROPERTY(Formula, DualPipeVHoldsOneChunkMoreThanTheV) {
  const Listed it = any(ScheduleName::dualpipe_v, 0, 2, false);
  // (P-1)(tFB + tB - 3 tW), where the pair of a forward and a backward takes the time of both.
  RC_ASSERT(it.span() == it.work() + 2 * (it.ranks - 1));
  for (const std::int64_t peak : it.peaks()) RC_ASSERT(peak == it.stages() + 1);
}

}  // namespace
}  // namespace sluice
