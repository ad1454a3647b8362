// What to find out about a divergence before anyone has to ask: it is replayed twice more.
//
// The second replay keeps the last decisions before the difference, the third tells a program that has
// changed, which differs in the same place every time, from one that is not deterministic. The caller
// runs the replays, since only it can make pipelines.
// One caller at a time; the recording is shared and stays as it is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/replay/divergence.hpp>
#include <sluice/replay/replayer.hpp>

namespace sluice::replay {

enum class Nature : std::uint8_t {
  program_changed,    ///< the same difference every time
  non_deterministic,  ///< another one, or none, when it was run again
};

/// `the program changed`, `non-deterministic`.
std::string_view to_string(Nature nature);

struct Investigation {
  Divergence divergence;  ///< the first replay's
  Nature nature = Nature::program_changed;
  std::vector<Decision> decisions;  ///< the last before it, in the order of the log
  /// The first differing replay's message, when there was one that differs elsewhere.
  std::string elsewhere;
};

/// Replays from the beginning with a Replayer made with these options, up to its end or difference.
using ReplayAgain = std::function<std::shared_ptr<const Replayer>(const ReplayOptions&)>;

/// `replayer` has diverged under `options`. Throws what `again` throws.
Investigation investigate(const Replayer& replayer, const ReplayOptions& options,
                          const ReplayAgain& again);

/// The whole report: message, circumstances, nature, decisions, on several lines.
std::string to_string(const Investigation& investigation);

}  // namespace sluice::replay
