#include <sluice/stage_starts.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace sluice::detail {
namespace {

constexpr std::uint64_t over = std::numeric_limits<std::uint64_t>::max();

/// A tree of losers: of many ascending rows, always the one whose next number is least; of equal ones
/// the lowest.
class Merge {
 public:
  explicit Merge(const std::vector<std::vector<std::uint64_t>>& rows)
      : rows_(rows), leaves_(std::bit_ceil(rows.size())) {
    next_.resize(rows.size(), 0);
    head_.resize(leaves_, over);
    for (std::size_t r = 0; r < rows.size(); ++r) head_[r] = rows[r].empty() ? over : rows[r][0];
    loser_.resize(leaves_);
    winner_ = play(1);
  }

  bool empty() const { return head_[winner_] == over; }
  std::size_t row() const { return winner_; }
  std::uint64_t number() const { return head_[winner_]; }

  void pop() {
    const std::size_t row = winner_;
    const std::size_t next = ++next_[row];
    head_[row] = next == rows_[row].size() ? over : rows_[row][next];
    for (std::size_t node = (leaves_ + row) / 2; node >= 1; node /= 2) {
      if (is_before(loser_[node], winner_)) std::swap(loser_[node], winner_);
    }
  }

 private:
  bool is_before(std::size_t a, std::size_t b) const {
    // The last bit is the phase, and does not count.
    const std::uint64_t one = head_[a] >> 1U;
    const std::uint64_t other = head_[b] >> 1U;
    return one < other || (one == other && a < b);
  }

  /// Who wins below `node`; its losers stay where they lost.
  std::size_t play(std::size_t node) {
    if (node >= leaves_) return node - leaves_;
    std::size_t winner = play(2 * node);
    loser_[node] = play(2 * node + 1);
    if (is_before(loser_[node], winner)) std::swap(loser_[node], winner);
    return winner;
  }

  const std::vector<std::vector<std::uint64_t>>& rows_;
  std::size_t leaves_;
  std::vector<std::size_t> next_;
  std::vector<std::uint64_t> head_;  // of each row; `over` behind its end
  std::vector<std::size_t> loser_;   // by inner node; 0 is not used
  std::size_t winner_ = 0;
};

}  // namespace

StageStarts::StageStarts(int stages, int microbatches) : starts_(static_cast<std::size_t>(stages)) {
  for (auto& of_stage : starts_) of_stage.reserve(2 * static_cast<std::size_t>(microbatches));
}

std::vector<TimedAction> StageStarts::merged(const Costs& costs) const {
  std::vector<TimedAction> actions;
  std::size_t count = 0;
  for (const auto& of_stage : starts_) count += of_stage.size();
  actions.reserve(count);
  std::vector<std::pair<int, int>> next(starts_.size());  // forward, backward
  for (Merge merge(starts_); !merge.empty(); merge.pop()) {
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
