// StageStarts: when each stage's actions started, and from that the actions of all in one list.
//
// The paths without events (law_sweep.cpp, wave.cpp) run each stage ahead of the others; this puts what
// they found into the order of time. Eight bytes an action until then. Private to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sluice/timeline.hpp>

namespace sluice::detail {

class StageStarts {
 public:
  StageStarts(int stages, int microbatches);

  // The next forward or backward of `stage`, whose microbatches ascend; starts never fall.
  void forward(std::size_t stage, std::int64_t start) { add(stage, start, 0); }
  void backward(std::size_t stage, std::int64_t start) { add(stage, start, 1); }

  /// All actions by start, then stage, one stage a rank. Requires that they are all there, and that
  /// each takes time; `costs` are complete.
  std::vector<TimedAction> merged(const Costs& costs) const;

 private:
  void add(std::size_t stage, std::int64_t start, std::uint64_t phase) {
    starts_[stage].push_back(static_cast<std::uint64_t>(start) << 1U | phase);
  }

  std::vector<std::vector<std::uint64_t>> starts_;  // by stage; the phase in the last bit
};

}  // namespace sluice::detail
