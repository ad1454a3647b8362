#include "checked_logs.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <sluice/log_pattern.hpp>

#include "errors.hpp"

namespace sluice::tools {
namespace {

/// Reads lines that look like one of the patterns; `unlike` will be the first that does not.
LogReader::ForeignLine by_patterns(const std::vector<std::string>& texts, std::string& unlike) {
  std::vector<LogPattern> patterns;
  try {
    for (const std::string& text : texts) patterns.emplace_back(text);
  } catch (const std::invalid_argument& error) {
    throw UsageError("--pattern", error.what());
  }
  return [patterns, &unlike](std::string_view line, LogLine& out) {
    const bool like = std::any_of(patterns.begin(), patterns.end(), [&](const LogPattern& pattern) {
      LogLine read = out;
      if (!pattern.match(line, read)) return false;
      out = read;
      return true;
    });
    if (!like && unlike.empty()) unlike = line;
    return like;
  };
}

/// A trace is read whole: its records are ordered by cause, which needs all of them.
std::string whole(LogInput& input) {
  std::string text;
  std::string bytes;
  while (input.read(bytes)) text += bytes;
  return text;
}

}  // namespace

CheckedLogs::CheckedLogs(const LogSources& sources, bool twice) : map_(sources.map) {
  if (!sources.patterns.empty()) foreign_ = by_patterns(sources.patterns, unlike_);
  for (const std::string& path : sources.paths) inputs_.emplace_back(path);
  if (!twice) return;
  for (LogInput& input : inputs_) input.keep();
}

LogCheck CheckedLogs::judge_for(const std::optional<Plan>& plan, const KnownShape& known) {
  LogCheck check(plan);
  if (!plan) check.expect(known);
  for (LogInput& input : inputs_) {
    if (used_) input.rewind();
    if (foreign_) {
      check.add(input.name(), foreign_);
    } else {
      check.add(input.name());
    }
  }
  used_ = true;
  check.keep_picture();
  return check;
}

void CheckedLogs::feed(LogCheck& check, int log, const std::string& bytes) {
  const LogInput& input = inputs_[static_cast<std::size_t>(log)];
  check.feed(log, bytes);
  if (const auto& end = input.step_end()) check.ended(end->first, end->second);
}

LogReport CheckedLogs::finish(LogCheck& check) {
  LogReport report = check.finish();
  if (foreign_ && report.records == 0 && !unlike_.empty()) {
    throw UsageError(
        "--pattern",
        fmt::format("no line of the logs looks like that: expected a whole line of them "
                    "with fields in place of its numbers, and ... for what else varies; "
                    "found '{}'",
                    unlike_.substr(0, 200)));
  }
  picture_.emplace(check.picture(report));
  return report;
}

LogReport CheckedLogs::check(const std::optional<Plan>& plan, const KnownShape& known) {
  LogCheck check = judge_for(plan, known);
  std::string bytes;
  while (const auto next = check.hungry()) {
    LogInput& input = inputs_[static_cast<std::size_t>(*next)];
    if (map_) {
      check.feed(*next, log_of_trace(whole(input), input.name(), *map_));
      check.end(*next);
    } else if (input.read(bytes)) {
      feed(check, *next, bytes);
    } else {
      check.end(*next);
    }
  }
  return finish(check);
}

LogReport CheckedLogs::follow(const std::optional<Plan>& plan, const KnownShape& known,
                              const Listener& listener) {
  LogCheck check = judge_for(plan, known);
  LogInput& input = inputs_.front();
  std::string bytes;
  std::set<std::string> told;
  LogCheck::Tally before;
  while (check.hungry()) {
    const bool more = input.read(bytes);
    if (more) feed(check, 0, bytes);
    const LogCheck::Tally now = check.tally();
    const bool steps = !more && now.steps > before.steps;
    if (now.rules > before.rules || steps) {
      const LogReport report = check.so_far();
      for (const LogFinding& finding : report.findings) {
        if (told.insert(finding.rule).second) listener.finding(finding);
      }
      if (steps) listener.verdict(report);
    }
    before.rules = now.rules;
    if (more) continue;
    before.steps = now.steps;
    if (!input.exists()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return finish(check);
}

}  // namespace sluice::tools
