// LogTimes: what the stages took, from the clock in a log.
//
// Whoever reads a log feeds it the records, in any order, those of many files too; it needs `t` in
// them. A time is the median over what the log has of it, so that a hiccup or a slow first step does
// not count. A value type with memory for the last actions of every stage; one caller at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <sluice/log_line.hpp>
#include <sluice/symptoms.hpp>

namespace sluice {

class LogTimes {
 public:
  void add(const LogLine& line);

  /// In milliseconds. Links and step are left out where the clocks of two stages do not agree.
  MeasuredTimes times() const;

  std::int64_t stages() const { return static_cast<std::int64_t>(durations_.size()); }
  std::int64_t actions() const { return actions_; }
  /// Records that had no clock, and so did not count.
  std::int64_t untimed() const { return untimed_; }
  /// False: something arrived before it was sent.
  bool clocks_agree() const { return clocks_agree_; }

 private:
  /// The last durations of one stage and phase.
  class Durations {
   public:
    void add(std::int64_t ns);
    bool empty() const { return kept_.empty(); }
    std::int64_t median() const;

   private:
    std::vector<std::int64_t> kept_;
    std::size_t next_ = 0;
  };
  struct Source {
    std::optional<Action> first;  // begins every step, where records name none
    std::int64_t step = 0;
  };
  /// A value on its way: when it was sent, and when its receiver started.
  struct Transfer {
    std::optional<std::int64_t> sent;
    std::optional<std::int64_t> started;
  };
  using Key = std::tuple<std::int64_t, Action>;  // step, action

  std::int64_t step_of(const LogLine& line);
  void hand_over(std::int64_t step, const Action& receiving, std::optional<std::int64_t> sent,
                 std::optional<std::int64_t> started);
  void measure_link(const Action& receiving, std::int64_t gap);

  std::vector<std::array<Durations, 4>> durations_;  // by stage, then phase
  std::map<Key, std::int64_t> open_;                 // when they entered
  std::map<Key, Transfer> transfers_;                // by the receiving action
  std::vector<std::optional<std::int64_t>> links_;   // per edge, the shortest gap
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> spans_;  // by step
  std::map<int, Source> sources_;
  std::int64_t actions_ = 0;
  std::int64_t untimed_ = 0;
  bool clocks_agree_ = true;
};

}  // namespace sluice
