// Folds what microbatches yield in ascending microbatch order, whatever order it comes in.
//
// Floating-point sums depend on their order; this is where sluice's do not. A value that comes early
// is held back until its turn: nothing is held when backwards run in ascending order.
#pragma once

#include <map>
#include <utility>

#include <sluice/ids.hpp>

namespace sluice::detail {

template <class T>
class InOrder {
 public:
  /// Calls `fold(mb, value)` for this value and for those that waited for it, as far as their turn
  /// has come.
  template <class Fold>
  void add(MicrobatchId mb, T value, Fold&& fold) {
    if (mb != next_) {
      early_.emplace(mb, std::move(value));
      return;
    }
    fold(next_, std::move(value));
    next_ = next_.next();
    while (!early_.empty() && early_.begin()->first == next_) {
      auto node = early_.extract(early_.begin());
      fold(next_, std::move(node.mapped()));
      next_ = next_.next();
    }
  }

  /// How many have been folded.
  int count() const { return next_.value; }

 private:
  std::map<MicrobatchId, T> early_;
  MicrobatchId next_;
};

}  // namespace sluice::detail
