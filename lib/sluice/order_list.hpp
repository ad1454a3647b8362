// What each rank of an order runs, one after the other: a schedule's lists, or the static order as it is
// asked for.
//
// A list has `count(rank)`, `at(rank, k)` and `overlaps(rank, k)`: whether a rank's k-th action, a forward,
// overlaps with the backward behind it. Values; what a ScheduleList points to outlives it. Private to the
// timelines.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/schedule.hpp>

namespace sluice::detail {

/// A schedule's lists, where they are.
struct ScheduleList {
  const Order* order;
  const std::vector<std::vector<std::size_t>>* overlapped;

  std::size_t count(RankId rank) const { return (*order)[rank.index()].size(); }
  Action at(RankId rank, std::size_t k) const { return (*order)[rank.index()][k]; }
  bool overlaps(RankId rank, std::size_t k) const {
    if (overlapped->empty()) return false;
    const auto& pairs = (*overlapped)[rank.index()];
    return std::binary_search(pairs.begin(), pairs.end(), k);
  }
};

/// The static order, one stage a rank.
struct StaticList {
  int microbatches;
  int drain_depth;

  std::size_t count(RankId) const { return 2 * static_cast<std::size_t>(microbatches); }
  Action at(RankId rank, std::size_t k) const {
    return static_action(StageId(rank.value), microbatches, drain_depth, static_cast<int>(k));
  }
  static constexpr bool overlaps(RankId, std::size_t) { return false; }
};

}  // namespace sluice::detail
