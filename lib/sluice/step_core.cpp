#include <sluice/step_core.hpp>

#include <utility>

#include <fmt/format.h>
#include <asio/associated_executor.hpp>
#include <asio/co_spawn.hpp>

#include <sluice/wait_graph.hpp>

namespace sluice::detail {

void StepCore::set_ranks(std::vector<RankCore*> ranks) {
  ranks_ = std::move(ranks);
  ranks_running_.store(static_cast<int>(ranks_.size()), std::memory_order_relaxed);
}

void StepCore::task_ended() {
  if (tasks_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  waiter_.call(waiter_home_);
}

void StepCore::free_slot(const Action& action, std::int64_t lamport, const Berth* brisk) {
  if (const auto rank = slots_.release(action, lamport)) ranks_[rank->index()]->nudge(brisk);
}

const asio::any_io_executor& StepCore::entrance() const {
  return ranks_[plan_->rank_of.front().index()]->messages();
}

void StepCore::rested() {
  if (awake_.fetch_sub(1, std::memory_order_acq_rel) == 1) quiescent();
}

void StepCore::rank_ended() {
  ranks_running_.fetch_sub(1, std::memory_order_relaxed);
  rested();
}

void StepCore::quiescent() {
  if (ranks_running_.load(std::memory_order_relaxed) == 0) return;
  if (stopping()) {
    // The step is to end, yet some director still waits for what will never come: a replay whose
    // recording asks for more than this run has.
    abandoned_.store(true, std::memory_order_release);
    for (RankCore* rank : ranks_) rank->nudge();
    return;
  }
  fail_as([this] {
    return StepError(StepError::Kind::stuck,
                     "stuck: every rank waits and nothing more can arrive; check the order, the "
                     "credits and the policy\n" +
                         wait_report());
  });
}

void StepCore::fail(StepError error, std::optional<Place> place) {
  {
    const std::scoped_lock lock(error_mutex_);
    if (decided_) return;
    if (error_ && !(place && place_ && *place < *place_)) return;
    error_ = std::move(error);
    place_ = place;
  }
  stopping_.store(true, std::memory_order_release);
  for (RankCore* rank : ranks_) rank->nudge();
}

void StepCore::fail(std::exception_ptr cause) noexcept {
  std::optional<StepError> error;
  try {
    error = StepError::from_runtime(cause);
  } catch (...) {
    error = no_memory_;  // copying it allocates nothing
  }
  fail(*std::move(error));
}

void StepCore::cancel() noexcept {
  fail_as([] { return StepError(StepError::Kind::cancelled, "the step was cancelled"); });
}

void StepCore::spawn(RankCore& rank, asio::awaitable<void> coroutine) {
  asio::co_spawn(rank.executor(), std::move(coroutine), [](std::exception_ptr) {});
}

bool StepCore::decide() {
  const std::scoped_lock lock(error_mutex_);
  decided_ = true;
  return !error_;
}

void StepCore::note(StepError error) {
  const std::scoped_lock lock(error_mutex_);
  if (!error_) error_ = std::move(error);
}

std::optional<StepError> StepCore::error() const {
  const std::scoped_lock lock(error_mutex_);
  return error_;
}

std::string StepCore::wait_report() const {
  return to_string(
      wait_graph(plan(), positions(), entered_.load(std::memory_order_relaxed), crossings_.now()));
}

std::vector<RankPosition> StepCore::positions() const {
  std::vector<RankPosition> positions;
  for (const RankCore* rank : ranks_) positions.push_back(rank->position());
  return positions;
}

void StepCore::ask(Probe& probe) const {
  for (const RankCore* rank : ranks_) probe.ask(rank->id(), rank->messages());
}

std::int64_t StepCore::progress() const {
  std::int64_t moves = 0;
  for (const RankCore* rank : ranks_) {
    const RankPosition at = rank->position();
    moves += 2 * at.started - (at.running ? 1 : 0);
  }
  return moves;
}

void StepCore::arm(Resumer<> waiter) {
  task_started();
  waiter_home_ = for_messages(asio::get_associated_executor(waiter));
  waiter_.sleep(std::move(waiter));
}

void StepCore::spread() {
  for (RankCore* rank : ranks_) {
    task_started();
    send(rank->messages(), [this, rank] {
      work_(*rank);
      task_ended();
    });
  }
}

}  // namespace sluice::detail
