// LogFacts: what a log shows of the shape of the pipeline that wrote it, step by step.
//
// Gathered by StepJudge, one number at a time, so that a log need not be kept to be understood: the
// order of a rank is remembered as a hash, to be compared with that of a schedule. Value types.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <sluice/ids.hpp>

namespace sluice {

/// The order of actions, as a number; two orders that differ have the same one by accident only.
struct OrderHash {
  std::uint64_t value = 0;
  std::int64_t actions = 0;

  constexpr void add(const Action& action) {
    const auto code = static_cast<std::uint64_t>(action.stage.value) << 34U |
                      static_cast<std::uint64_t>(action.phase) << 32U |
                      static_cast<std::uint64_t>(action.mb.value);
    value = (value ^ (code + 1)) * 0x9E3779B97F4A7C15U;
    value ^= value >> 29U;
    ++actions;
  }
  friend constexpr bool operator==(const OrderHash&, const OrderHash&) = default;
};

/// What is known of the shape beforehand.
struct KnownShape {
  std::optional<std::int32_t> stages;
  std::optional<std::int32_t> microbatches;
};

struct StageFacts {
  std::int64_t records = 0;
  Phase first_phase = Phase::forward;  ///< of its first record
  std::optional<RankId> rank;          ///< where a record says so
  int warm_up = 0;                     ///< forwards before its first backward
  bool went_backward = false;
  int peak_held = 0;
  OrderHash order;
};

struct LogFacts {
  std::vector<StageFacts> stages;  ///< up to the highest that was seen
  std::vector<OrderHash> ranks;    ///< likewise; empty when no record named one
  int microbatches = 0;            ///< the highest that was seen, plus 1
  bool whole = false;              ///< everything that started was finished
};

}  // namespace sluice
