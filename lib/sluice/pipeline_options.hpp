// What an embedder decides about a pipeline, besides its plan and its stages.
//
// Copied into the pipeline, which keeps the callables and the director as long as it lives. Where each
// callable is called is said beside it. What one of them throws is told as the step's error; an update
// that was applied by then stands.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <sluice/delivery.hpp>
#include <sluice/director.hpp>
#include <sluice/event.hpp>
#include <sluice/executors.hpp>
#include <sluice/metrics.hpp>
#include <sluice/watchdog.hpp>

namespace sluice {

/// What fails the action that made it when it is NaN or Inf, so that nothing of its step is applied.
enum class FiniteCheck : std::uint8_t {
  none,
  loss,        ///< what a last stage reports
  everything,  ///< and every output that crosses a stage boundary (WireTraits::finite)
};

struct PipelineOptions {
  StageExecutors executors;              ///< required
  std::shared_ptr<Director> director{};  ///< null: live, with the policy that the plan names
  std::uint64_t seed = 0;                ///< for the keyed random sources
  FiniteCheck check_finite = FiniteCheck::none;
  /// Training forwards of stages that promise bits run twice, and fail when the outputs' hashes differ
  /// (WireTraits::clone). Doubles the forwards: for a first step, not for a run.
  bool probe_determinism = false;
  /// Called at the end of each training step, normal or failed, with its events in causal order, on
  /// the executor of the rank that owns stage 0. Empty: events are not kept.
  std::function<void(std::span<const Event>)> log{};
  /// Called in the same place, after evaluations too, with how the ranks spent the step and what came
  /// of it.
  std::function<void(const StepMetrics&)> metrics{};
  /// Nanoseconds of a steady clock, read by every rank; only differences mean anything. Read only for
  /// `log` and `metrics`; empty: events carry no time.
  std::function<std::int64_t()> clock = [] {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  };
  /// How outputs get from one rank to another. Empty: handed over in memory, at once.
  Carry carry{};
  /// For deadlines. On the deterministic executor use one of its own virtual time.
  AlarmFactory alarm = steady_alarm;
  /// When nothing has moved in a running step for this long, `on_stall` is told who waits for what, and
  /// which stage functions hold their threads; the run goes on. Zero: no watchdog, and no thread.
  std::chrono::nanoseconds stall_after{0};
  /// False: the watchdog asks no executor whether its threads are held, because nobody may post to it
  /// from another thread (the deterministic one).
  bool stall_asks = true;
  std::function<void(const std::string&)> on_stall{};
};

}  // namespace sluice
