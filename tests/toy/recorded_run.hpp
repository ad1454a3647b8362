// Records runs of the toy model and replays them: what the tests of recorder, replayer and diff share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sluice/replay/recorder.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/replayer.hpp>

#include "toy_run.hpp"

namespace sluice::test {

/// Runs and records into `path`.
ToyOutcome record_toy(const ToyRun& run, const std::string& path, Machine machine,
                      std::shared_ptr<Policy> policy = nullptr,
                      replay::RecordingMode mode = replay::RecordingMode::verify);

struct ToyReplay {
  std::shared_ptr<replay::Replayer> replayer;
  ToyOutcome outcome;
};

/// Replays `recording` with `run`.
ToyReplay replay_toy(const ToyRun& run, std::shared_ptr<const replay::Recording> recording,
                     Machine machine, std::shared_ptr<Director> inner = nullptr);

/// Each rank's actions in a log, in its order.
inline std::vector<std::vector<Action>> sequences(const std::vector<Event>& log, int ranks) {
  std::vector<std::vector<Action>> result(static_cast<std::size_t>(ranks));
  for (const Event& event : log) {
    if (event.kind == Event::Kind::enter) result[event.rank.index()].push_back(event.action);
  }
  return result;
}

/// Whether two logs hold the same events, times apart.
inline bool same_events(const std::vector<Event>& a, const std::vector<Event>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].kind != b[i].kind || a[i].rank != b[i].rank || a[i].action != b[i].action ||
        a[i].step != b[i].step || a[i].local != b[i].local || a[i].lamport != b[i].lamport ||
        a[i].hashed != b[i].hashed || a[i].hash != b[i].hash) {
      return false;
    }
  }
  return true;
}

}  // namespace sluice::test
