// Arrivals: moments at which values arrive or slots are freed, in the order in which they are taken.
//
// A ring that grows; private to the sweeps (law_sweep.cpp, order_sweep.hpp), which own one for each row of
// such moments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::detail {

class Arrivals {
 public:
  bool empty() const { return first_ == last_; }
  std::int64_t front() const { return moments_[first_ & mask_]; }
  void pop() {
    // A long row that has run dry is given back: with many stages only a few are long at once.
    if (++first_ == last_ && mask_ >= 256) *this = Arrivals();
  }
  void push(std::int64_t moment) {
    if (last_ - first_ > mask_) grow();
    moments_[last_++ & mask_] = moment;
  }

 private:
  void grow() {
    std::vector<std::int64_t> larger(2 * moments_.size());
    const std::size_t count = last_ - first_;
    for (std::size_t i = 0; i < count; ++i) larger[i] = moments_[(first_ + i) & mask_];
    moments_ = std::move(larger);
    mask_ = moments_.size() - 1;
    first_ = 0;
    last_ = count;
  }

  std::vector<std::int64_t> moments_ = std::vector<std::int64_t>(4);
  std::size_t mask_ = 3;
  std::size_t first_ = 0;
  std::size_t last_ = 0;
};

}  // namespace sluice::detail
