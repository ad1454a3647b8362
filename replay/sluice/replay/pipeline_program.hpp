// A step of the real runtime as a program for the explorer: the pipeline, its policies and its coroutines on
// the deterministic executor, with stages that do nothing but notice what is wrong.
//
// A run is wrong when the step does not end, is stuck, or ends otherwise than the faults allow; when an event
// breaks a rule of the law, of the order or of causality; when a stage's function is called twice, or before
// its time; when gradients arrive in another order than the plain loop's, or an update is applied in part;
// when after a failure the next step does not succeed. One world serves all runs. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include <sluice/director.hpp>
#include <sluice/policy.hpp>
#include <sluice/replay/explorer.hpp>
#include <sluice/replay/scenario.hpp>

namespace sluice::replay {

/// What can happen in a run that is worth having happened at least once.
enum class Seen : std::uint8_t {
  several_ready,     ///< a rank had more than one action to choose from
  waited_at_hand,    ///< it waited although something was ready
  waited_for_input,  ///< it waited, and nothing was
  stop_idle,         ///< it saw that the step is to end with nothing in hand
  stop_at_hand,      ///< the same, while something was ready
  stop_unstarted,    ///< the same, before it had run anything
  failed,
  aborted,
  committed,
};
constexpr std::size_t seen_count = 9;
std::string_view to_string(Seen seen);

/// How often, over all runs.
struct Coverage {
  std::array<std::int64_t, seen_count> counts{};
};

struct PipelineProgram {
  Program program;
  std::shared_ptr<const Coverage> coverage;
};

/// Wraps the director of a run, to record it.
using WrapDirector =
    std::function<std::shared_ptr<Director>(const Plan&, std::shared_ptr<Director>)>;

/// `policy`: null for the plan's own. Throws ConfigError when the scenario has no plan.
PipelineProgram pipeline_program(const Scenario& scenario, std::shared_ptr<Policy> policy = nullptr,
                                 const WrapDirector& wrap = {});

}  // namespace sluice::replay
