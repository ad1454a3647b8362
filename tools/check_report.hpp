// What came of sluice check, as text and as JSON.
//
// Pure functions of a report.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/log_report.hpp>
#include <sluice/plan.hpp>

#include "output.hpp"

namespace sluice::tools {

Json json_of(const LogFinding& finding);
Json json_of(const LogReport& report, const std::optional<Plan>& plan);

/// Findings, what the log says of itself, and the verdict.
std::string text_of(const LogReport& report, const std::optional<Plan>& plan, bool has_log);

/// `pass: 128 records, 1 step`, a line.
std::string verdict_of(const LogReport& report);

/// The verdict on what cannot be read or cannot be run.
Json rejected_json(std::span<const Finding> findings);

}  // namespace sluice::tools
