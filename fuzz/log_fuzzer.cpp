// Any bytes as a log: a report, never a crash, and the same one however they were cut into pieces.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <sluice/log_check.hpp>
#include <sluice/plan.hpp>

namespace {

sluice::LogReport report_of(std::string_view bytes, bool planned, std::size_t piece) {
  static const sluice::Plan plan = [] {
    sluice::PlanConfig config;
    config.stages = 4;
    config.microbatches = 8;
    return sluice::derive_plan(config);
  }();
  sluice::LogCheck check(planned ? std::optional(plan) : std::nullopt, 64);
  check.keep_picture();
  const int log = check.add("fuzzed");
  for (std::size_t from = 0; from < bytes.size(); from += piece) {
    check.feed(log, bytes.substr(from, piece));
  }
  const sluice::LogReport report = check.finish();
  check.picture(report);
  return report;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const bool planned : {false, true}) {
    const auto whole = report_of(bytes, planned, size + 1);
    const auto pieces = report_of(bytes, planned, 7);
    const bool same = whole.verdict == pieces.verdict && whole.records == pieces.records &&
                      whole.findings.size() == pieces.findings.size();
    if (!same) std::abort();
    if (whole.verdict != sluice::Verdict::pass && whole.findings.empty()) std::abort();
  }
  return 0;
}
