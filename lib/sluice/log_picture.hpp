// The picture of a log that is wrong: the step as it was planned, the step as it was, and an arrow at
// the first wrong cell.
//
// MeasuredStep gathers the actions of one step while a log is judged. Their times are the records'
// clocks where all have one; else each action starts when its stage is free and its cause has ended,
// and takes what it was planned to take. Long steps are gathered up to a limit: a picture shows the
// head of a step anyway. A value type and a pure function; any executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/log_line.hpp>
#include <sluice/plan.hpp>
#include <sluice/timeline.hpp>

namespace sluice {

class MeasuredStep {
 public:
  void add(const LogLine& line);
  /// Begins with another step.
  void clear();

  /// What ran, by seq of its enter; what never exited ends with the last record. `plan`, or nothing:
  /// for what actions take where no clock says it.
  std::vector<TimedAction> actions(const Plan* plan) const;
  /// Which of them the record belongs to, or else the last that had started.
  std::size_t action_of(std::int64_t seq) const;
  bool empty() const { return records_.empty(); }
  bool timed() const { return timed_; }

 private:
  /// What a picture needs of a record.
  struct Seen {
    std::int64_t seq = 0;
    std::int64_t t_ns = 0;
    Action action;
    LogRecord::Event event = LogRecord::Event::enter;
  };
  struct Span {
    Seen enter;
    Seen exit;
    bool open = true;
  };

  std::vector<Span> spans() const;

  std::vector<Seen> records_;
  Seen last_;
  bool timed_ = true;
};

/// Empty when there is nothing to draw, or more stages than a terminal has rows. `plan` may be
/// nothing. `seq` and `stage` say where the arrow stands, `rule` what it says.
std::string draw_wrong(const Plan* plan, const MeasuredStep& measured, std::int64_t seq,
                       StageId stage, std::string_view rule);

}  // namespace sluice
