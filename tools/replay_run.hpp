// A replay of a recorded training: its steps under a replayer, and what became of them.
//
// Used by sluice replay, several times over when there is something to find out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <sluice/ids.hpp>
#include <sluice/kernels/data_set.hpp>
#include <sluice/plan.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/replayer.hpp>

#include "config.hpp"

namespace sluice::tools {

/// What a replay is made of.
struct ReplaySetup {
  std::shared_ptr<const replay::Recording> recording;
  const Config& config;
  const Plan& plan;
  std::shared_ptr<const kernels::DataSet> data;
  int threads = 1;
};

struct ReplayedRun {
  struct Failure {
    std::int64_t step = 0;
    std::optional<Action> action;
    std::string message;
  };

  std::shared_ptr<replay::Replayer> replayer;
  std::optional<Failure> failure;  ///< of the last step
  std::uint64_t weights_hash = 0;
  std::int64_t live_steps = 0;  ///< behind the recorded ones
};

/// To the end of the recording, to the point in `options`, or, when that says so, live from there to the
/// end of the run. Shows its progress on a terminal.
ReplayedRun replay_run(const ReplaySetup& setup, const replay::ReplayOptions& options);

}  // namespace sluice::tools
