// Any bytes as a log, in every notation: a report, never a crash, and the same one however they were
// cut into pieces. Bytes with a pattern in their first line are read by it, too, and bytes that could be
// a trace as one.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/log_check.hpp>
#include <sluice/log_pattern.hpp>
#include <sluice/plan.hpp>

#include "../tools/errors.hpp"
#include "../tools/trace_log.hpp"

namespace {

using sluice::LogPattern;
using sluice::LogReader;

sluice::LogReport report_of(std::string_view bytes, const LogReader::ForeignLine& foreign,
                            bool planned, std::size_t piece) {
  static const sluice::Plan plan = [] {
    sluice::PlanConfig config;
    config.stages = 4;
    config.microbatches = 8;
    return sluice::derive_plan(config);
  }();
  sluice::LogCheck check(planned ? std::optional(plan) : std::nullopt, 64);
  check.keep_picture();
  const int log = foreign ? check.add("fuzzed", foreign) : check.add("fuzzed");
  for (std::size_t from = 0; from < bytes.size(); from += piece) {
    check.feed(log, bytes.substr(from, piece));
  }
  const sluice::LogReport report = check.finish();
  check.picture(report);
  return report;
}

void judge(std::string_view bytes, const LogReader::ForeignLine& foreign = {}) {
  for (const bool planned : {false, true}) {
    const auto whole = report_of(bytes, foreign, planned, bytes.size() + 1);
    const auto pieces = report_of(bytes, foreign, planned, 7);
    const bool same = whole.verdict == pieces.verdict && whole.records == pieces.records &&
                      whole.findings.size() == pieces.findings.size();
    if (!same) std::abort();
    if (whole.verdict != sluice::Verdict::pass && whole.findings.empty()) std::abort();
  }
}

/// The first line is the pattern of the others.
void judge_by_pattern(std::string_view bytes) {
  const std::size_t end = bytes.find('\n');
  if (end == std::string_view::npos) return;
  try {
    const LogPattern pattern(bytes.substr(0, end));
    judge(bytes.substr(end + 1), [&pattern](std::string_view line, sluice::LogLine& out) {
      return pattern.match(line, out);
    });
  } catch (const std::invalid_argument&) {
  }
}

/// What a trace says is a log that can be read.
void judge_trace(std::string_view bytes) {
  namespace tools = sluice::tools;
  static const tools::TraceMap map({"name=F{mb}|B{mb}", "stage=tid"});
  std::string log;
  try {
    log = tools::log_of_trace(bytes, "fuzzed", map);
  } catch (const tools::UsageError&) {
    return;
  }
  if (report_of(log, {}, false, log.size()).verdict == sluice::Verdict::rejected) std::abort();
  judge(log);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  judge(bytes);
  if (bytes.find("{mb}") != std::string_view::npos) judge_by_pattern(bytes);
  if (bytes.starts_with('[') || bytes.starts_with('{')) judge_trace(bytes);
  return 0;
}
