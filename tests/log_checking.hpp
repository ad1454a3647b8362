// A log held against a configuration, and what a failed expectation about it prints.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sluice/log_check.hpp>
#include <sluice/plan.hpp>

#include "log_builder.hpp"

namespace sluice::test {

inline LogReport check_text(std::string_view text, const std::optional<PlanConfig>& config = {}) {
  LogCheck check(config ? std::optional(derive_plan(*config)) : std::nullopt);
  const int log = check.add("run.log");
  check.feed(log, text);
  return check.finish();
}

inline LogReport check(const LogBuilder& log, const std::optional<PlanConfig>& config = {}) {
  return check_text(log.text(), config);
}

inline std::string described(const LogReport& report) {
  std::string text(to_string(report.verdict));
  for (const LogFinding& finding : report.findings) text += "\n  " + finding.message;
  if (report.inference) text += "\n  " + to_string(*report.inference);
  return text;
}

inline PlanConfig adaptive(PlanConfig config) {
  config.order = OrderMode::adaptive;
  return config;
}

inline bool of_stage(const LogRecord& record, int stage) {
  return record.action.stage == StageId(stage);
}
inline bool of_mb(const LogRecord& record, int mb) { return record.action.mb == MicrobatchId(mb); }
inline bool is_forward(const LogRecord& record) { return record.action.phase == Phase::forward; }

}  // namespace sluice::test
