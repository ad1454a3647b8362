// Inference: which pipeline wrote a log, from the log alone.
//
// S, M and V are counted, W is the forwards of stage 0 before its first backward, minus 1; a schedule
// is named when its order, derived for that shape, is the order of every rank in the log. Several can
// be (with M < S, GPipe and 1F1B are one): all are named. Pure functions; any executor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sluice/log_facts.hpp>
#include <sluice/schedule.hpp>

namespace sluice {

struct Guess {
  ScheduleName schedule = ScheduleName::drain;
  int chunks = 1;
};

struct Inference {
  int stages = 0;
  int microbatches = 0;
  int drain_depth = 0;
  int chunks = 1;                ///< stages a rank; 1 unless ranks or a schedule say more
  bool ranks_named = false;      ///< by the records
  bool whole = false;            ///< a whole step was seen
  std::vector<Guess> schedules;  ///< all whose order it is; empty when none
  /// What keeps it from being sure: a log that is not whole, an order that no schedule has, ...
  std::vector<std::string> doubts;

  bool sure() const { return doubts.empty(); }
};

Inference infer(const LogFacts& facts);

/// `stages = 4, microbatches = 8, drain_depth = 3, schedule = drain or 1f1b`.
std::string to_string(const Inference& inference);

}  // namespace sluice
