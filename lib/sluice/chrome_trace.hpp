// Timelines for a trace viewer: the JSON that Perfetto and chrome://tracing open.
//
// A track becomes a process, a rank a thread, an action a slice with its stage, phase and microbatch.
// Called by the commands that plan and show; pure function, any executor.
#pragma once

#include <string>
#include <vector>

#include <sluice/drawing.hpp>

namespace sluice {

/// All actions of all tracks. A unit of their time is a millisecond in the viewer. Marks become
/// instant events.
std::string chrome_trace(const std::vector<Track>& tracks);

}  // namespace sluice
