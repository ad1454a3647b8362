// What replay and diff say: divergences for a person and as JSON, and refusals in both.
#pragma once

#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sluice/replay/divergence.hpp>
#include <sluice/replay/identity.hpp>
#include <sluice/replay/investigation.hpp>
#include <sluice/replay/replayer.hpp>

#include "errors.hpp"
#include "output.hpp"

namespace sluice::tools {

ExitCode exit_code_of(replay::Verdict verdict);

/// Position, both sides, circumstances; message.
Json json_of(const replay::Divergence& divergence);
/// And whether it was the same again, and the decisions before it.
Json json_of(const replay::Investigation& investigation);

/// `identity: the same here`, or a line a difference.
std::string identity_text(std::span<const replay::IdentityDifference> differences);
Json json_of(std::span<const replay::IdentityDifference> differences);

/// A refusal that has been written as JSON already, if JSON was wanted.
class Refused : public UsageError {
 public:
  using UsageError::UsageError;
};

/// Runs `command`. What it throws is also told as JSON, verdict `refused`, when `json` is wanted: a
/// script that reads standard output finds the reason there.
int or_refused(bool json, const std::function<int()>& command);

}  // namespace sluice::tools
