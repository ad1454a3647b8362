// Replays the order of a recording without its stages: is what was recorded possible, and does the
// runtime do it again?
//
// Stages are stubs that do nothing, fail where the recording says so, and whose outputs are taken to be
// the recorded ones. Needs neither data, nor weights, nor kernels, nor the program that was recorded, so
// any recording replays on any machine, at a million actions a second. Runs in the calling thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <sluice/replay/divergence.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/replayer.hpp>

namespace sluice::replay {

struct ScheduleReplay {
  Verdict verdict = Verdict::same;
  std::optional<Divergence> divergence;
  std::string error;  ///< of the last step replayed; empty: none
  std::size_t steps = 0;
  std::int64_t actions = 0;
  std::int64_t events = 0;
};

/// Up to `until`, when there is one. Throws ConfigError when the recorded plan is none that could run.
ScheduleReplay replay_schedule(const std::shared_ptr<const Recording>& recording,
                               const std::optional<ReplayPoint>& until = std::nullopt);

}  // namespace sluice::replay
