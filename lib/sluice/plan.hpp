// The plan: everything that S, M, W and the costs determine, derived before anything runs.
//
// Called by whoever starts a pipeline, on any executor, without side effects. A Plan is an
// immutable value; a Pipeline takes one by copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sluice/finding.hpp>
#include <sluice/ids.hpp>
#include <sluice/schedule.hpp>
#include <sluice/time.hpp>
#include <sluice/timeline.hpp>

namespace sluice {

/// How a rank picks its next action at run time.
enum class OrderMode : std::uint8_t {
  fixed,     ///< the order that the law gives in virtual time under the planned costs
  adaptive,  ///< the law itself, applied to what has really arrived
};

/// What a stage keeps in memory, in bytes. A list with one element stands for every stage; empty: 0.
struct Memory {
  std::vector<std::int64_t> per_microbatch;  ///< per stage, from a forward to its release
  std::vector<std::int64_t> fixed;           ///< per stage: weights, gradients, optimizer state
  std::optional<std::int64_t> cap;           ///< what a rank may use
};

/// What a user decides. Everything else is derived from it.
///     derive_plan({.stages = 4, .microbatches = 8})
struct PlanConfig {
  int stages = 0;                    ///< S >= 1, the total
  int microbatches = 0;              ///< M >= 1; there is no default
  std::optional<int> drain_depth{};  ///< W >= 0; S-1 when absent
  ScheduleName schedule = ScheduleName::drain;
  std::optional<std::vector<int>> credits{};  ///< c_0..c_{S-1}, each >= 1; instead of drain_depth
  OrderMode order = OrderMode::fixed;
  std::optional<int> chunks{};  ///< V, stages a rank; absent: what the schedule is made for
  /// A schedule of the user's own, instead of `schedule` and `chunks`.
  std::optional<Schedule> custom{};
  Costs costs{};
  Memory memory{};
  /// How many values may wait on each edge, per direction; absent: never blocking.
  std::optional<int> slots{};
  /// Detail::metrics leaves Plan::order and Plan::timeline.actions empty: for comparing shapes, and
  /// for those whose actions would not fit in memory. Such a plan cannot be run.
  Detail detail = Detail::actions;
};

/// What follows from a PlanConfig.
struct Plan {
  PlanConfig config;  ///< what it was derived from
  int stages = 0;
  int ranks = 0;
  int microbatches = 0;
  /// W. For a schedule other than drain the one that the schedule has: the forwards that stage 0
  /// starts before its first backward, minus 1. For a credit vector min(M, c_0) - 1.
  int drain_depth = 0;
  ScheduleName schedule = ScheduleName::drain;
  OrderMode order_mode = OrderMode::fixed;
  std::vector<int> credits;  ///< per stage: the most it may hold
  int gate = 0;              ///< held by the last stage when its first backward starts
  Order order;               ///< per rank: its actions, first to last
  /// Per rank: where in its order a forward and the backward behind it may overlap.
  std::vector<std::vector<std::size_t>> overlapped;
  std::vector<RankId> rank_of;  ///< per stage
  Timeline timeline;            ///< of `order` (or of the law) under `costs`
  Costs costs;                  ///< completed: one entry a stage, one link an edge
  std::optional<int> slots;     ///< as configured; absent: never blocking
  /// The fewest slots with which the order cannot get stuck. Absent when only a stored order could
  /// tell and there is none (Detail::metrics).
  std::optional<int> slots_safe;
  int slots_never_blocking = 0;   ///< with as many, no rank ever waits for a slot
  std::vector<Finding> findings;  ///< warnings; an error is thrown instead

  std::vector<std::int64_t> peak_bytes;  ///< per rank, of all its stages at once
  int entered_at_first_backward = 0;     ///< forwards stage 0 had started by then
  /// Share of the makespan in which the average rank is idle: 1 - work / (ranks * makespan).
  double bubble_of_makespan = 0;
  /// Idle time over work: (ranks * makespan - work) / work.
  double bubble_of_ideal = 0;
};

/// Derives the plan, or throws ConfigError with every error-severity finding (checks.hpp).
Plan derive_plan(const PlanConfig& config);

}  // namespace sluice
