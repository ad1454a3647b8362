#include <sluice/replay/deterministic_executor.hpp>

#include <sluice/random.hpp>

namespace sluice::replay {

DeterministicContext::~DeterministicContext() {
  drop_all();
  shutdown();  // pipelines let go of their sleeping coroutines
  drop_all();
  destroy();
}

void DeterministicContext::drop_all() {
  // Dropping a handler may unwind a coroutine, which posts again.
  while (!queue_.empty() || !timers_.empty()) {
    const auto queue = std::exchange(queue_, {});
    const auto timers = std::exchange(timers_, {});
  }
}

std::size_t DeterministicContext::run() {
  std::size_t ran = 0;
  while (!queue_.empty() || !timers_.empty()) {
    if (queue_.empty()) {
      auto due = timers_.extract(timers_.begin());
      now_ns_ = due.key().first;
      due.mapped()->call();
      continue;
    }
    const std::size_t index = pick_ ? pick_(queue_.size()) : 0;
    const auto place = queue_.begin() + static_cast<std::ptrdiff_t>(index);
    const std::unique_ptr<Work> work = std::move(*place);
    queue_.erase(place);
    work->call();
    ++ran;
  }
  return ran;
}

DeterministicContext::Pick seeded_picks(std::uint64_t seed) {
  return [random = KeyedRandom(seed, 0, "deterministic_executor", 0, "pick")](
             std::size_t queued) mutable -> std::size_t {
    return random.below(static_cast<std::uint32_t>(queued));
  };
}

}  // namespace sluice::replay
