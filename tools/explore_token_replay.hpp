// Tokens of sluice explore: `sluice replay` runs their order again, `sluice explore --record` writes it down.
#pragma once

#include <filesystem>
#include <string_view>

#include <sluice/replay/scenario.hpp>

namespace sluice::tools {

bool is_token(std::string_view text);

/// Runs the order once more, prints what came of it, and returns the exit code. Throws UsageError for
/// what is no token, and for one that needs a schedule or a policy that is not in it.
int replay_token_command(std::string_view text, bool json);

/// Throws RecordingError, and UsageError for a token of the plan's states: nothing runs there.
void record_token(const replay::Token& token, const std::filesystem::path& file);

}  // namespace sluice::tools
