// The picture of a log: a step as it was planned, the step as it was, and an arrow at the first wrong
// cell.
//
// MeasuredStep gathers the actions of one step while a log is judged. Their times are the records'
// clocks where all have one; else each action starts when its stage is free and its cause has ended,
// and takes what it was planned to take. Long steps are gathered up to a limit: a picture shows the
// head of a step anyway. A value type and a pure function; any executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sluice/drawing.hpp>
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

/// A step to draw, as text here or with drawing.hpp. Owns what its tracks show.
class LogPicture {
 public:
  /// The first record that is wrong.
  struct Wrong {
    std::int64_t seq = 0;
    StageId stage;
    std::string rule;
  };

  /// `plan` and `wrong` may be nothing.
  LogPicture(const Plan* plan, const MeasuredStep& measured, const std::optional<Wrong>& wrong);

  /// Empty when there is nothing to draw, or more stages than a screen has rows.
  std::string text() const;
  /// Planned above measured; empty likewise. The tracks show what this object holds.
  std::vector<Track> tracks() const;

 private:
  bool drawable() const;

  std::vector<TimedAction> planned_;
  int planned_stages_ = 0;
  Time makespan_;  // of the plan
  std::vector<TimedAction> measured_;
  int stages_ = 1;
  bool timed_ = false;
  std::optional<Mark> wrong_;
};

}  // namespace sluice
