// Where ranks run: one factory, which is all that the rest of the code needs to know.
//
// sluice starts no threads. The embedder hands in an executor; each rank needs a serial one.
#pragma once

#include <functional>
#include <utility>

#include <asio/any_io_executor.hpp>
#include <asio/strand.hpp>

#include <sluice/ids.hpp>

namespace sluice {

/// The executor of a rank. Must run one thing at a time; its context outlives every step.
using StageExecutors = std::function<asio::any_io_executor(RankId)>;

/// A strand a rank on a context that several threads run: `asio::thread_pool`, or an `io_context`
/// with several threads in `run`. Any number of ranks, any number of threads.
template <class Executor>
StageExecutors strand_per_rank(Executor executor) {
  return [executor = std::move(executor)](RankId) -> asio::any_io_executor {
    return asio::make_strand(executor);
  };
}

/// Every rank directly on an executor that is serial already: an `io_context` that one thread runs, or
/// the deterministic executor (over which a strand would hide the choices).
inline StageExecutors single_thread(asio::any_io_executor executor) {
  return [executor = std::move(executor)](RankId) { return executor; };
}

}  // namespace sluice
