// What a step looked like before one of its lines, as its recording tells: what each rank could have
// started, what each stage held, what waited between the stages.
//
// Derived from the actions alone, by cause and effect; when something really arrived is not recorded. So
// a rank's ready actions are those whose inputs were made before the line, in the log's order. For the
// explanation of a difference. Pure functions; any executor.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/schedule.hpp>

namespace sluice::replay {

struct StepState {
  std::vector<std::vector<Action>> ready;  ///< per rank, by (stage, phase, mb)
  std::vector<int> held;                   ///< per stage: forwards started, less those released
  std::vector<int> forwards_waiting;       ///< per stage: outputs of the stage before it
  std::vector<int> backwards_waiting;      ///< per stage: gradients of the stage behind it
};

/// `before`: per rank, how many of its events count. `order` is the planned order of the step: which
/// actions there are.
StepState state_of(const RecordedStep& step, const std::vector<std::size_t>& before,
                   const Order& order, int stages);

/// `1F3 1B2`, or `nothing`.
std::string list_of(const std::vector<Action>& actions);

/// `1F3 1B2; found +1F4 -1B2`: two ready sets, the second against the first.
std::string compare_ready(const std::vector<Action>& recorded, const std::vector<Action>& found);

}  // namespace sluice::replay
