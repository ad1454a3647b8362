// What came of sluice check, as text and as JSON.
//
// Pure functions of a report.
#pragma once

#include <span>
#include <string>

#include <sluice/log_report.hpp>

#include "output.hpp"

namespace sluice::tools {

Json json_of(const LogFinding& finding);
/// `warnings`: of the configuration, or of what the log alone shows of one.
Json json_of(const LogReport& report, std::span<const Finding> warnings);

/// Findings, what the log says of itself, and the verdict.
std::string text_of(const LogReport& report, std::span<const Finding> warnings, bool has_log);

/// `pass: 128 records, 1 step`, a line.
std::string verdict_of(const LogReport& report);

/// The verdict on what cannot be read or cannot be run.
Json rejected_json(std::span<const Finding> findings);

}  // namespace sluice::tools
