// Where ranks run: one factory, which is all that the rest of the code needs to know.
//
// sluice starts no threads. The embedder hands in an executor; each rank needs a serial one.
#pragma once

#include <chrono>
#include <concepts>
#include <functional>
#include <utility>

#include <asio/any_io_executor.hpp>
#include <asio/strand.hpp>

#include <sluice/ids.hpp>

namespace sluice {

/// How ranks that have work share their threads: lib/sluice/turn.hpp.
struct Turns {
  /// A rank goes on for so long, and one action longer, before others on its executor are let in: a hundred
  /// trips through the executor's queue, which an action that need not suspend does not take. Longer gains
  /// nothing, and a stage function of any size takes longer anyway, so that others are let in after
  /// every action. Zero: after every action, and no clock has a say.
  std::chrono::nanoseconds length = std::chrono::microseconds(20);
  /// While a rank's actions are shorter than this it wakes no thread for what it hands on, but has it
  /// run next on its own: from about here on a second thread is worth its waking. Zero: never.
  std::chrono::nanoseconds short_action = std::chrono::microseconds(1);
};

/// Where each rank runs, and how long it may keep its thread.
class StageExecutors {
 public:
  StageExecutors() = default;
  /// `of(rank)`: the executor of a rank. Must run one thing at a time; its context outlives every step.
  template <std::invocable<RankId> Of>
  StageExecutors(Of of, Turns turns = {}) : of_(std::move(of)), turns_(turns) {}

  asio::any_io_executor operator()(RankId rank) const { return of_(rank); }
  const Turns& turns() const { return turns_; }
  explicit operator bool() const { return static_cast<bool>(of_); }

 private:
  std::function<asio::any_io_executor(RankId)> of_;
  Turns turns_;
};

/// A strand a rank on a context that several threads run: `asio::thread_pool`, or an `io_context`
/// with several threads in `run`. Any number of ranks, any number of threads.
///
/// (Asio's thread_pool waits for ever in its constructor when the system cannot give it a thread.)
template <class Executor>
StageExecutors strand_per_rank(Executor executor, Turns turns = {}) {
  return StageExecutors(
      [executor = std::move(executor)](RankId) -> asio::any_io_executor {
        return asio::make_strand(executor);
      },
      turns);
}

/// Every rank directly on an executor that is serial already: an `io_context` that one thread runs.
inline StageExecutors single_thread(asio::any_io_executor executor, Turns turns = {}) {
  return StageExecutors([executor = std::move(executor)](RankId) { return executor; }, turns);
}

}  // namespace sluice
