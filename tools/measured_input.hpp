// What --measured says: a log with clocks in it, or times that someone types in.
//
// `forward=1,1,1.4`, and so on, or the path of a log; an argument with a known word before its `=` is
// times, every other one is a log. Read for sluice plan.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <sluice/plan.hpp>
#include <sluice/step_fit.hpp>
#include <sluice/symptoms.hpp>

#include "output.hpp"

namespace sluice::tools {

struct MeasuredInput {
  MeasuredTimes times;
  std::vector<StepPoint> steps;
  std::string unit;                  ///< ` ms` for a log; what was typed in has no name
  std::vector<std::string> remarks;  ///< what a log did not tell

  bool has_times() const { return !times.forward.empty() || !times.backward.empty(); }
};

/// Throws UsageError for what cannot be read.
MeasuredInput read_measured(std::span<const std::string> given);

/// Plan and run side by side. Throws UsageError when they are not of the same shape.
std::string measured_text(const Plan& plan, const MeasuredInput& measured);
Json measured_json(const Plan& plan, const MeasuredInput& measured);

}  // namespace sluice::tools
