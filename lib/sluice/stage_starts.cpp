#include <sluice/stage_starts.hpp>

#include <utility>

#include <sluice/row_merge.hpp>

namespace sluice::detail {

StageStarts::StageStarts(int stages, int microbatches) : starts_(static_cast<std::size_t>(stages)) {
  for (auto& of_stage : starts_) of_stage.reserve(2 * static_cast<std::size_t>(microbatches));
}

std::vector<TimedAction> StageStarts::merged(const Costs& costs) const {
  std::vector<TimedAction> actions;
  std::size_t count = 0;
  for (const auto& of_stage : starts_) count += of_stage.size();
  actions.reserve(count);
  std::vector<std::pair<int, int>> next(starts_.size());  // forward, backward
  for (RowMerge merge(starts_); !merge.empty(); merge.pop()) {
    const std::size_t s = merge.row();
    const bool backward = (merge.number() & 1U) != 0;
    const int mb = backward ? next[s].second++ : next[s].first++;
    const Time cost = backward ? costs.backward[s] : costs.forward[s];
    const std::int64_t size = costs.sizes.empty() ? 1 : costs.sizes[static_cast<std::size_t>(mb)];
    TimedAction timed;
    timed.action = Action(StageId(static_cast<std::int64_t>(s)),
                          backward ? Phase::backward : Phase::forward, MicrobatchId(mb));
    timed.rank = RankId(static_cast<std::int64_t>(s));
    timed.start = Time::from_millionths(static_cast<std::int64_t>(merge.number() >> 1U));
    timed.end = timed.start + size * cost + costs.overhead;
    actions.push_back(timed);
  }
  return actions;
}

}  // namespace sluice::detail
