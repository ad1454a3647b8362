// What a recording knows of the run besides its events: how steps came out, and from where it can be
// run again.
//
// Values that recorder and reader share.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice {
struct StepResult;
}

namespace sluice::replay {

/// What a step came to.
struct RecordedResult {
  double loss = 0;
  std::uint64_t figures = 0;  ///< hash of whatever else the last stage reported

  /// Bit by bit: a NaN equals itself.
  friend bool operator==(const RecordedResult& a, const RecordedResult& b) {
    return std::bit_cast<std::uint64_t>(a.loss) == std::bit_cast<std::uint64_t>(b.loss) &&
           a.figures == b.figures;
  }
};

RecordedResult result_of(const StepResult& result);
/// `loss 0.25, other figures 0123456789abcdef`: to the last bit.
std::string to_string(const RecordedResult& result);

/// A state from which the run can be run again.
struct RecordedAnchor {
  std::int64_t step = 0;     ///< the state is that before this step
  std::int64_t samples = 0;  ///< taken from the data by then
  std::string file;          ///< the checkpoint; empty: the state with which the program begins
  std::optional<std::uint64_t> hash;  ///< of the checkpoint
};

}  // namespace sluice::replay
