// CheckedLogs: the logs of one run, in whatever notation and from wherever, held against a plan.
//
// Opens them all, reads each as far as the judge is hungry for it, and judges. For sluice check.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sluice/log_check.hpp>

#include "log_input.hpp"
#include "trace_log.hpp"

namespace sluice::tools {

struct LogSources {
  std::vector<std::string> paths;
  std::vector<std::string> patterns;  ///< of lines that are in none of our notations
  std::optional<TraceMap> map;        ///< the logs are traces
};

class CheckedLogs {
 public:
  /// Throws UsageError or RecordingError for what cannot be opened. `twice`: check() will be called
  /// again.
  CheckedLogs(const LogSources& sources, bool twice);
  CheckedLogs(const CheckedLogs&) = delete;
  CheckedLogs& operator=(const CheckedLogs&) = delete;

  /// Holds them against `plan`, or without one against themselves and what is known of their shape.
  /// Throws UsageError for what cannot be read.
  LogReport check(const std::optional<Plan>& plan, const KnownShape& known);

  /// Who wants to hear of a log that still grows.
  struct Listener {
    std::function<void(const LogFinding&)> finding;  ///< each rule once
    std::function<void(const LogReport&)> verdict;   ///< by now; when steps have ended
  };
  /// The same for one log that still grows, until it is removed.
  LogReport follow(const std::optional<Plan>& plan, const KnownShape& known,
                   const Listener& listener);

  /// Of what the last check() found first, or of its last step. Requires a check before.
  const LogPicture& picture() const { return *picture_; }

 private:
  LogCheck judge_for(const std::optional<Plan>& plan, const KnownShape& known);
  void feed(LogCheck& check, int log, const std::string& bytes);
  LogReport finish(LogCheck& check);

  std::vector<LogInput> inputs_;
  LogReader::ForeignLine foreign_;
  std::string unlike_;  // the first line that looks like no pattern
  std::optional<TraceMap> map_;
  bool used_ = false;
  std::optional<LogPicture> picture_;
};

}  // namespace sluice::tools
