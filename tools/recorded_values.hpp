// The values in a recording: what its actions were given, listed and taken out.
//
// Pure functions of a recording, for sluice show.
#pragma once

#include <string>

#include <sluice/director.hpp>
#include <sluice/ids.hpp>
#include <sluice/replay/recording.hpp>

#include "document.hpp"
#include "output.hpp"
#include "recorded_events.hpp"

namespace sluice::tools {

/// A line a value of the step that is selected; empty when there is none.
std::string values_text(const replay::RecordedStep& step, const Selection& selection);

Json values_json(const replay::RecordedStep& step, const Selection& selection);

/// The bytes of one value: of sluice train a .npy file. Throws UsageError, naming `option`, for one
/// that is not there.
std::string value_of(const replay::RecordedStep& step, const Action& action,
                     InboundValue::Role role, const std::string& option);

}  // namespace sluice::tools
