// LogReport: what came of holding a log against its rules, and why.
//
// explain() makes findings of the judge's complaints: one for each cause, with what follows from it
// counted and not repeated, the configuration key that is the likely cause, and the change that mends
// it. Pure functions; any executor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/complaints.hpp>
#include <sluice/finding.hpp>
#include <sluice/log_infer.hpp>
#include <sluice/plan.hpp>

namespace sluice {

enum class Verdict : std::uint8_t {
  pass,        ///< warnings at most
  violation,   ///< a rule is broken
  incomplete,  ///< records are missing, and what is there breaks no rule
  truncated,   ///< it stops before its end, and breaks no rule until then
  rejected,    ///< it cannot be read
};

std::string_view to_string(Verdict verdict);

struct LogFinding : Finding {
  std::string log;         ///< the name of the log it stands in
  std::int64_t line = 0;   ///< 0: it is about the log as a whole
  std::int64_t count = 1;  ///< records that this one cause made wrong
  std::string last_good;   ///< the stage's last record that was as it should be
};

struct LogReport {
  Verdict verdict = Verdict::pass;
  std::int64_t records = 0;
  std::int64_t steps = 0;
  std::vector<LogFinding> findings;
  /// What the log alone says of its pipeline.
  std::optional<Inference> inference;
};

/// What explain() knows besides the complaints.
struct Evidence {
  const Plan* plan = nullptr;  ///< nothing: the log was held against itself
  KnownShape known;            ///< by the plan, or without one
  LogFacts facts;              ///< of the step that says most
  Inference inference;
  std::vector<std::string> logs;  ///< names, by source
};

/// By seq; sets `verdict` too.
void explain(const Complaints& complaints, const Evidence& evidence, LogReport& report);

}  // namespace sluice
