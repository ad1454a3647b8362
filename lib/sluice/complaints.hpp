// Complaints: what the judge of a log has found, gathered by rule.
//
// A thousand records that break one rule are one complaint with a count, and the one kept is the
// first by seq. Filled by StepJudge and LogCheck, made into findings by explain(). A value type.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/log_line.hpp>

namespace sluice {

/// The rules a log is held against, in the order in which one explains another.
enum class LogRule : std::uint8_t {
  seq_order,
  seq_gap,
  lost_records,
  unknown_id,
  stage_silent,
  first_seen_backward,
  mb_skipped,
  mb_repeated,
  exit_without_enter,
  never_exits,
  forward_order,
  backward_order,
  backward_before_forward,
  rank_overlap,
  mb_order,
  gate_early,
  over_credit,
  plan_order,
  truncated,
};
constexpr std::size_t log_rules = 19;

/// `seq-order`, `seq-gap`, ...: stable, scripts rely on them.
std::string_view to_string(LogRule rule);

/// The last record of a stage that was as it should be.
struct LastGood {
  std::int64_t seq = 0;
  Action action;
  LogRecord::Event event = LogRecord::Event::enter;
  bool there = false;
};

/// `seq 12 2F4 exit`, or that there was none.
std::string to_string(const LastGood& last);

/// `2F5 enter`.
std::string to_string(const Action& action, LogRecord::Event event);

struct Complaint {
  LogRule rule = LogRule::seq_order;
  LogLine at;
  bool has_record = true;  ///< false: it is about the log as a whole
  LastGood last;
  std::string expected;
  std::string found;
  std::string due;     ///< what the plan's order had there, when it says more than `expected`
  std::string likely;  ///< the key, where the record alone tells it
  std::string change;  ///< and what mends it
  std::int64_t count = 1;
};

class Complaints {
 public:
  void add(Complaint complaint);
  /// Whether add() would keep more than a count of it: false for the hundredth of a kind.
  bool news(LogRule rule, const LogLine& at) const;
  void count(LogRule rule) { ++of_[static_cast<std::size_t>(rule)]->count; }

  const std::optional<Complaint>& of(LogRule rule) const {
    return of_[static_cast<std::size_t>(rule)];
  }
  std::size_t rules() const;  ///< that there is a complaint of
  bool empty() const { return rules() == 0; }
  /// By seq; at one seq by rule.
  std::vector<Complaint> sorted() const;

 private:
  std::array<std::optional<Complaint>, log_rules> of_;
};

}  // namespace sluice
