#include <sluice/replay/strategy.hpp>

#include <algorithm>
#include <cmath>

namespace sluice::replay {
namespace {

std::uint64_t task_of(const Runnable& runnable) {
  if (runnable.lane == DeterministicContext::no_lane) return runnable.number << 32U;
  return runnable.lane;
}

}  // namespace

std::size_t ByDeviations::pick(std::span<const Runnable> runnable, std::uint32_t decision) {
  if (runnable.size() == 1 || next_ == deviations_.size()) return 0;
  if (deviations_[next_].decision != decision) return 0;
  return std::min<std::size_t>(deviations_[next_++].option, runnable.size() - 1);
}

void Pct::begin(std::int64_t run) {
  random_ = KeyedRandom(seed_, run, "explore", 0, "pct");
  priorities_.clear();
  step_ = 0;
  lowest_ = 0;
  changes_.clear();
  for (int i = 1; i < depth_; ++i) {
    changes_.push_back(
        random_.below(static_cast<std::uint32_t>(std::max<std::int64_t>(steps_, 1))));
  }
  std::sort(changes_.begin(), changes_.end());
}

std::int64_t Pct::priority_of(const Runnable& runnable) {
  const std::uint64_t task = task_of(runnable);
  const auto known = priorities_.find(task);
  if (known != priorities_.end()) return known->second;
  // Above every task that has fallen behind; ties are as good as impossible.
  const auto high = static_cast<std::int64_t>(random_() >> 1U);
  const std::int64_t priority = high << 31U | static_cast<std::int64_t>(random_() >> 1U);
  priorities_.emplace(task, priority);
  return priority;
}

std::size_t Pct::pick(std::span<const Runnable> runnable, std::uint32_t) {
  const auto highest = [&] {
    std::size_t best = 0;
    std::int64_t most = priority_of(runnable[0]);
    for (std::size_t i = 1; i < runnable.size(); ++i) {
      const std::int64_t priority = priority_of(runnable[i]);
      if (priority <= most) continue;
      most = priority;
      best = i;
    }
    return best;
  };
  std::size_t chosen = highest();
  for (; !changes_.empty() && changes_.front() <= step_; changes_.erase(changes_.begin())) {
    priorities_[task_of(runnable[chosen])] = --lowest_;
    chosen = highest();
  }
  ++step_;
  return chosen;
}

double Pct::bound(std::int64_t tasks, std::int64_t steps, int depth) {
  return 1 / (static_cast<double>(std::max<std::int64_t>(tasks, 1)) *
              std::pow(static_cast<double>(std::max<std::int64_t>(steps, 1)), depth - 1));
}

std::int64_t Pct::runs_for_99_percent(double bound) {
  if (bound >= 1) return 1;
  return static_cast<std::int64_t>(std::ceil(std::log(0.01) / std::log1p(-bound)));
}

std::unique_ptr<Strategy> strategy_of(const Walk& walk) {
  std::unique_ptr<Strategy> strategy;
  if (walk.strategy == StrategyName::pct) {
    strategy = std::make_unique<Pct>(walk.seed, walk.depth, walk.steps);
  } else {
    strategy = std::make_unique<RandomWalk>(walk.seed);
  }
  strategy->begin(walk.run);
  return strategy;
}

}  // namespace sluice::replay
