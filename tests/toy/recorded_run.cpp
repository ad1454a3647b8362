#include "recorded_run.hpp"

#include <utility>

namespace sluice::test {

ToyOutcome record_toy(const ToyRun& run, const std::string& path, Machine machine,
                      std::shared_ptr<Policy> policy, replay::RecordingMode mode) {
  const Plan plan = derive_plan(run.config);
  replay::RecorderOptions options;
  options.mode = mode;
  options.run_id = {};
  auto live = std::make_shared<LiveDirector>(policy ? policy : policy_for(plan));
  auto recorder = std::make_shared<replay::Recorder>(path, plan, live, options);
  auto outcome = run_toy(run, recorder, machine);
  recorder->close();
  return outcome;
}

ToyReplay replay_toy(const ToyRun& run, std::shared_ptr<const replay::Recording> recording,
                     Machine machine, std::shared_ptr<Director> inner) {
  ToyReplay result;
  result.replayer =
      std::make_shared<replay::Replayer>(recording, derive_plan(run.config), std::move(inner));
  result.outcome = run_toy(run, result.replayer, machine,
                           [replayer = result.replayer] { return replayer->more(); });
  return result;
}

}  // namespace sluice::test
