// Tokens of sluice explore: `sluice replay` runs their order again, `sluice explore --record` writes it down.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sluice/plan.hpp>
#include <sluice/policy.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/token.hpp>

namespace sluice::tools {

bool is_token(std::string_view text);

/// Runs the order once more, prints what came of it, and returns the exit code. `with` and `policy` bring
/// what a token does not hold: a schedule, or who decides at run time. Throws UsageError for what is no
/// token, for one that needs a schedule or a policy which is not there, and for one of another shape than
/// `with`.
int replay_token_command(std::string_view text, bool json, const PlanConfig* with = nullptr,
                         const std::shared_ptr<Policy>& policy = nullptr);

/// Throws RecordingError, and UsageError for a token of the plan's states: nothing runs there.
void record_token(const replay::Token& token, const std::filesystem::path& file,
                  const std::shared_ptr<Policy>& policy = nullptr);

/// The token of a run that `sluice explore --record` wrote down; nothing for any other recording.
std::optional<std::string> explored_token(const replay::Recording& recording);
/// Runs its order once more, compares it with the recording, event by event, prints the verdict and
/// returns the exit code. Throws UsageError for a token that needs a schedule or a policy: it names the
/// commands that can do without, and with.
int replay_explored_command(const replay::Recording& recording, const std::string& text, bool json);

}  // namespace sluice::tools
