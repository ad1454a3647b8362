// A recording as a person reads it.
//
// Pure functions of a recording, for sluice show.
#pragma once

#include <span>
#include <string>

#include <sluice/ids.hpp>
#include <sluice/plan.hpp>
#include <sluice/replay/recording.hpp>

#include "recorded_events.hpp"

namespace sluice::tools {

/// How the steps ended: a line for each run of steps with the same verdict.
std::string verdicts_text(const replay::Recording& recording);

/// The actions of a step in the order in which its ranks ran them. When they ran is not recorded: the
/// costs of `plan` give them a place in time.
Timeline timeline_of(const replay::RecordedStep& step, const Plan& plan);

/// The same as a picture.
std::string order_picture(const replay::RecordedStep& step, const Plan& plan);

/// A line a pick; one line that says so when there are none.
std::string picks_text(std::span<const UnplannedPick> picks);

/// What a microbatch went through: `F0 F1 B1 B0`.
std::string life_in(const replay::RecordedStep& step, MicrobatchId mb);

}  // namespace sluice::tools
