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

/// Where each rank runs, and how long it may keep its thread.
class StageExecutors {
 public:
  StageExecutors() = default;
  /// `of(rank)`: the executor of a rank. Must run one thing at a time; its context outlives every step.
  /// `turn`: a rank that has work goes on for so long before others on the executor are let in, and one
  /// action longer; zero: after every action. An action that need not suspend then takes no trip through
  /// the executor's queue, which costs more than everything else about it.
  template <std::invocable<RankId> Of>
  StageExecutors(Of of, std::chrono::nanoseconds turn = {}) : of_(std::move(of)), turn_(turn) {}

  asio::any_io_executor operator()(RankId rank) const { return of_(rank); }
  std::chrono::nanoseconds turn() const { return turn_; }
  explicit operator bool() const { return static_cast<bool>(of_); }

 private:
  std::function<asio::any_io_executor(RankId)> of_;
  std::chrono::nanoseconds turn_{};
};

/// A strand a rank on a context that several threads run: `asio::thread_pool`, or an `io_context`
/// with several threads in `run`. Any number of ranks, any number of threads.
///
/// (Asio's thread_pool waits for ever in its constructor when the system cannot give it a thread.)
template <class Executor>
StageExecutors strand_per_rank(Executor executor) {
  // A hundred trips through the queue or so: longer gains nothing, and every real stage function takes
  // longer than this, so that it still lets others in after every action.
  constexpr std::chrono::microseconds turn(20);
  return StageExecutors(
      [executor = std::move(executor)](RankId) -> asio::any_io_executor {
        return asio::make_strand(executor);
      },
      turn);
}

/// Every rank directly on an executor that is serial already: an `io_context` that one thread runs, or
/// the deterministic executor (over which a strand would hide the choices). No clock has a say in when a
/// rank lets others in, so the same run takes the same turns.
inline StageExecutors single_thread(asio::any_io_executor executor) {
  return StageExecutors([executor = std::move(executor)](RankId) { return executor; });
}

}  // namespace sluice
