// A finding: one thing that is wrong, or will disappoint, in a configuration or a log.
//
// Every finding holds the same five facts: what (rule), where (key, or seq, stage, mb, phase),
// expected, found, and what to change (message). What does not apply is absent. Rule names are
// stable; scripts rely on them.
// Plain values; any executor.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <sluice/ids.hpp>

namespace sluice {

enum class Severity : std::uint8_t { warning, error };

struct Finding {
  std::string rule;  ///< `fill`, `drain-depth`, `slots`, ...
  Severity severity = Severity::error;
  std::string key;  ///< the configuration key that mends it; empty when none does
  std::optional<std::int64_t> seq;
  std::optional<StageId> stage;
  std::optional<MicrobatchId> mb;
  std::optional<Phase> phase;
  std::string expected;
  std::string found;
  std::string likely;   ///< for a log: the key whose value is the likely cause
  std::string message;  ///< one line for a person: what, where, expected, found, what to change
};

/// Thrown when a configuration cannot be run; `what()` is the findings' messages, a line each.
class ConfigError : public std::invalid_argument {
 public:
  explicit ConfigError(std::vector<Finding> findings);

  const std::vector<Finding>& findings() const { return findings_; }

 private:
  std::vector<Finding> findings_;
};

}  // namespace sluice
