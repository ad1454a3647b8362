// Tokens of sluice explore: `sluice replay` runs their order again, `sluice explore --record` writes it down.
#pragma once

#include <filesystem>
#include <string_view>

#include <sluice/plan.hpp>
#include <sluice/replay/scenario.hpp>

namespace sluice::tools {

bool is_token(std::string_view text);

/// Runs the order once more, prints what came of it, and returns the exit code. `with`: brings the schedule
/// that a token does not hold. Throws UsageError for what is no token, for one that needs a schedule or a
/// policy which is not there, and for one of another shape than `with`.
int replay_token_command(std::string_view text, bool json, const PlanConfig* with = nullptr);

/// Throws RecordingError, and UsageError for a token of the plan's states: nothing runs there.
void record_token(const replay::Token& token, const std::filesystem::path& file);

}  // namespace sluice::tools
