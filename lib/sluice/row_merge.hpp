// RowMerge: of many ascending rows of moments, always the earliest that is left; of equal ones the lowest row's.
//
// A tree of losers: a comparison for each of its levels, whatever the rows. It puts what the paths
// without events (law_sweep.cpp, wave.cpp, order_sweep.hpp) found for each row into the order of time.
// Private to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::detail {

class RowMerge {
 public:
  /// A moment is shifted left by one; its last bit is the owner's, and is not compared. The rows outlive
  /// the merge.
  explicit RowMerge(const std::vector<std::vector<std::uint64_t>>& rows);

  bool empty() const;
  std::size_t row() const { return winner_; }
  std::uint64_t number() const { return head_[winner_]; }
  void pop();

 private:
  bool is_before(std::size_t a, std::size_t b) const {
    const std::uint64_t one = head_[a] >> 1U;
    const std::uint64_t other = head_[b] >> 1U;
    return one < other || (one == other && a < b);
  }
  std::size_t play(std::size_t node);

  const std::vector<std::vector<std::uint64_t>>& rows_;
  std::size_t leaves_;
  std::vector<std::size_t> next_;
  std::vector<std::uint64_t> head_;  // of each row; the largest number behind its end
  std::vector<std::size_t> loser_;   // by inner node; 0 is not used
  std::size_t winner_ = 0;
};

}  // namespace sluice::detail
