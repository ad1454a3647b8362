#include "replay_run.hpp"

#include <fmt/format.h>

#include <sluice/director.hpp>
#include <sluice/policy.hpp>
#include <sluice/step_error.hpp>

#include "progress.hpp"
#include "training.hpp"

namespace sluice::tools {

ReplayedRun replay_run(const ReplaySetup& setup, const replay::ReplayOptions& options) {
  ReplayedRun replayed;
  replayed.replayer = std::make_shared<replay::Replayer>(
      setup.recording, setup.plan, std::make_shared<LiveDirector>(policy_for(setup.plan)), options);
  const replay::Replayer& replayer = *replayed.replayer;
  Training training(setup.config, setup.plan, setup.data, setup.threads, replayed.replayer);
  Progress progress;
  const auto live = [&] { return replayer.reached() && options.then == replay::HandOver::live; };
  const auto steps = [&] {
    return static_cast<std::int64_t>(replayer.steps()) + replayed.live_steps;
  };
  while (replayer.more() || (live() && !replayed.failure && steps() < training.steps())) {
    replayed.live_steps += live() ? 1 : 0;
    try {
      training.step();
      replayed.failure.reset();
    } catch (const StepError& error) {
      replayed.failure = ReplayedRun::Failure{steps() - 1, error.action(), error.what()};
    }
    if (progress.due()) {
      progress.show(fmt::format("step {}/{}  {} actions as recorded", steps(),
                                setup.recording->steps(), replayer.actions()));
    }
  }
  replayed.weights_hash = training.weights_hash();
  return replayed;
}

}  // namespace sluice::tools
