#include <sluice/row_merge.hpp>

#include <bit>
#include <limits>
#include <utility>

namespace sluice::detail {
namespace {

constexpr std::uint64_t over = std::numeric_limits<std::uint64_t>::max();

}  // namespace

RowMerge::RowMerge(const std::vector<std::vector<std::uint64_t>>& rows)
    : rows_(rows), leaves_(std::bit_ceil(rows.size())) {
  next_.resize(rows.size(), 0);
  head_.resize(leaves_, over);
  for (std::size_t r = 0; r < rows.size(); ++r) head_[r] = rows[r].empty() ? over : rows[r][0];
  loser_.resize(leaves_);
  winner_ = play(1);
}

bool RowMerge::empty() const { return head_[winner_] == over; }

void RowMerge::pop() {
  const std::size_t row = winner_;
  const std::size_t next = ++next_[row];
  head_[row] = next == rows_[row].size() ? over : rows_[row][next];
  for (std::size_t node = (leaves_ + row) / 2; node >= 1; node /= 2) {
    if (is_before(loser_[node], winner_)) std::swap(loser_[node], winner_);
  }
}

/// Who wins below `node`; its losers stay where they lost.
std::size_t RowMerge::play(std::size_t node) {
  if (node >= leaves_) return node - leaves_;
  std::size_t winner = play(2 * node);
  loser_[node] = play(2 * node + 1);
  if (is_before(loser_[node], winner)) std::swap(loser_[node], winner);
  return winner;
}

}  // namespace sluice::detail
