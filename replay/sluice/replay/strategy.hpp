// Strategies: what an explorer answers when the deterministic executor asks what runs next.
//
// Every one is a class with `begin(run)` and `pick(runnable)`, and depends on its seed and on what it is
// asked, never on time. An order is written down as its deviations: the open decisions, counted from 0,
// at which something else than the oldest ran. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <sluice/random.hpp>
#include <sluice/replay/deterministic_executor.hpp>

namespace sluice::replay {

using Runnable = DeterministicContext::Runnable;

/// At an open decision (one with two options or more) not the oldest runs, but this option.
struct Deviation {
  std::uint32_t decision = 0;
  std::uint32_t option = 0;

  friend bool operator==(const Deviation&, const Deviation&) = default;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Another run starts; `run` counts from 0.
  virtual void begin(std::int64_t run) = 0;
  /// Index into `runnable`, which is not empty; `decision` counts the open decisions of the run.
  virtual std::size_t pick(std::span<const Runnable> runnable, std::uint32_t decision) = 0;
};

/// The oldest, but for the given deviations; options that are not there count as the last one.
class ByDeviations final : public Strategy {
 public:
  explicit ByDeviations(std::vector<Deviation> deviations) : deviations_(std::move(deviations)) {}
  void begin(std::int64_t) override { next_ = 0; }
  std::size_t pick(std::span<const Runnable> runnable, std::uint32_t decision) override;

 private:
  std::vector<Deviation> deviations_;  // by decision
  std::size_t next_ = 0;
};

/// Any option, each as likely.
class RandomWalk final : public Strategy {
 public:
  explicit RandomWalk(std::uint64_t seed) : seed_(seed), random_(seed, 0, "explore", 0, "walk") {}
  void begin(std::int64_t run) override { random_ = KeyedRandom(seed_, run, "explore", 0, "walk"); }
  std::size_t pick(std::span<const Runnable> runnable, std::uint32_t) override {
    if (runnable.size() == 1) return 0;
    return random_.below(static_cast<std::uint32_t>(runnable.size()));
  }

 private:
  std::uint64_t seed_;
  KeyedRandom random_;
};

/// Probabilistic concurrency testing: tasks have random priorities, and at d-1 random steps the one that
/// would run falls behind all others. A run finds a bug of depth d with probability at least
/// 1 / (n k^(d-1)), where n bounds the tasks and k the steps of a run. A serial executor is a task;
/// so is every handler that belongs to none.
class Pct final : public Strategy {
 public:
  Pct(std::uint64_t seed, int depth, std::int64_t steps)
      : seed_(seed), depth_(depth), steps_(steps), random_(seed, 0, "explore", 0, "pct") {}
  void begin(std::int64_t run) override;
  std::size_t pick(std::span<const Runnable> runnable, std::uint32_t decision) override;
  /// Runs can be as long as this.
  void expect(std::int64_t steps) { steps_ = std::max(steps_, steps); }
  std::int64_t expected() const { return steps_; }

  /// Of finding a bug of depth `depth` in one run.
  static double bound(std::int64_t tasks, std::int64_t steps, int depth);
  /// So many runs find it with a probability of 99 %.
  static std::int64_t runs_for_99_percent(double bound);

 private:
  std::int64_t priority_of(const Runnable& runnable);

  std::uint64_t seed_;
  int depth_;
  std::int64_t steps_;
  KeyedRandom random_;
  std::vector<std::int64_t> changes_;  // the steps of the priority changes, ascending
  std::map<std::uint64_t, std::int64_t> priorities_;
  std::int64_t step_ = 0;
  std::int64_t lowest_ = 0;
};

enum class StrategyName : std::uint8_t { bounded, pct, random };

/// One run of a strategy that draws, without a word about what it did.
struct Walk {
  StrategyName strategy = StrategyName::random;  ///< pct or random
  std::uint64_t seed = 0;
  std::int64_t run = 0;
  int depth = 0;           ///< pct alone, and
  std::int64_t steps = 0;  ///< what it took for the length of a run

  friend bool operator==(const Walk&, const Walk&) = default;
};

/// Ready to pick: `begin` has been called.
std::unique_ptr<Strategy> strategy_of(const Walk& walk);

}  // namespace sluice::replay
