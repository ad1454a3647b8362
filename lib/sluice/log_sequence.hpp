// LogSequence: records in whatever order their lines stand, handed on in the order of their seq.
//
// What is ahead of its turn is kept until the numbers before it have come, so memory follows how far
// a log is out of order, never its length. When more than `window` records wait, the missing numbers
// are taken for lost. The receiver has `record(line)`, `lost(first, last)` and `again(line)`, which
// is told of a number that has had its turn and returns true when the log starts again there.
// A value type; one caller at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <sluice/log_line.hpp>

namespace sluice {

class LogSequence {
 public:
  explicit LogSequence(std::size_t window) : window_(window) {}

  template <class Receiver>
  void put(const LogLine& line, Receiver& receiver) {
    const std::int64_t seq = line.record.seq;
    if (seq == next_) {
      ++next_;
      receiver.record(line);
      if (!waiting_.empty()) drain(receiver);
    } else if (seq > next_) {
      waiting_.push_back(line);
      std::push_heap(waiting_.begin(), waiting_.end(), later);
      if (waiting_.size() > window_) lose(receiver);
    } else if (receiver.again(line)) {
      next_ = seq + 1;
      receiver.record(line);
    }
  }

  /// No more will come: whatever is missing now is lost.
  template <class Receiver>
  void finish(Receiver& receiver) {
    while (!waiting_.empty()) lose(receiver);
  }

  std::int64_t next() const { return next_; }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  /// Of two with one number, the one that stands first in its log comes first.
  static bool later(const LogLine& a, const LogLine& b) {
    if (a.record.seq != b.record.seq) return a.record.seq > b.record.seq;
    return a.source != b.source ? a.source > b.source : a.line > b.line;
  }

  template <class Receiver>
  void lose(Receiver& receiver) {
    receiver.lost(next_, waiting_.front().record.seq - 1);
    next_ = waiting_.front().record.seq;
    drain(receiver);
  }

  template <class Receiver>
  void drain(Receiver& receiver) {
    while (!waiting_.empty() && waiting_.front().record.seq <= next_) {
      std::pop_heap(waiting_.begin(), waiting_.end(), later);
      const LogLine line = waiting_.back();
      waiting_.pop_back();
      if (line.record.seq == next_) {
        ++next_;
        receiver.record(line);
      } else if (receiver.again(line)) {
        receiver.record(line);
      }
    }
  }

  std::size_t window_;
  std::int64_t next_ = 1;
  std::vector<LogLine> waiting_;  // a heap, the lowest seq in front
};

}  // namespace sluice
