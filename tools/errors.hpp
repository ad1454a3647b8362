// Exit codes, and the exceptions that end a command early.
//
// A command returns `clean` or `found` itself; whatever cannot be used (a usage error, an unreadable
// or rejected input, an output that cannot be written) is thrown as UsageError, which main() prints to
// standard error, a line each, and turns into `unusable`.
#pragma once

#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sluice/finding.hpp>

namespace sluice::tools {

enum ExitCode : int {
  clean = 0,     ///< warnings at most
  found = 1,     ///< a finding, or a run that failed, diverged or got stuck
  unusable = 2,  ///< usage, unreadable or rejected input
};

class UsageError : public std::exception {
 public:
  /// Each line is whole: `where: error: what; what to change`.
  explicit UsageError(std::vector<std::string> lines) : lines_(std::move(lines)) {}
  UsageError(std::string_view where, std::string_view what);

  std::span<const std::string> lines() const { return lines_; }
  const char* what() const noexcept override { return lines_.front().c_str(); }

 private:
  std::vector<std::string> lines_;
};

/// A configuration that reads well and cannot be run.
class RejectedConfig : public UsageError {
 public:
  RejectedConfig(std::vector<std::string> lines, std::vector<Finding> findings)
      : UsageError(std::move(lines)), findings_(std::move(findings)) {}

  std::span<const Finding> findings() const { return findings_; }

 private:
  std::vector<Finding> findings_;
};

/// `where: error: what`, the form in which editors expect it.
std::string error_line(std::string_view where, std::string_view what);

/// Writes to standard error as far as there is one: that it is closed or full changes no exit code.
void say(std::string_view text);

/// `; did you mean 'stages'?` when one of `candidates` is near `text`, else nothing.
std::string did_you_mean(std::string_view text, std::span<const std::string> candidates);

}  // namespace sluice::tools
