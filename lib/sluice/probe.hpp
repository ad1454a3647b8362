// A probe: asks every rank's executor to answer, to tell a rank that is asleep from one whose thread is
// blocked.
//
// A stage function that suspends leaves its rank's executor free, and the executor answers. One that
// blocks its thread does not let it answer; when every thread is blocked, no rank answers. Sent and read
// by the watchdog, answered on the ranks' executors.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>

#include <sluice/wait_graph.hpp>

namespace sluice::detail {

class Probe {
 public:
  explicit Probe(std::size_t ranks)
      : open_(std::make_shared<std::vector<std::atomic<bool>>>(ranks)) {}

  /// Through `executor`, the rank's own; not while an earlier question is still open.
  void ask(RankId rank, const asio::any_io_executor& executor);
  bool answered(RankId rank) const;

 private:
  std::shared_ptr<std::vector<std::atomic<bool>>> open_;  // shared with the questions under way
};

/// What the answers say about ranks that stand still at `positions`: who blocks a thread, who is
/// suspended. A line each; empty when there is nothing to say.
std::string to_string(const Probe& probe, std::span<const RankPosition> positions);

}  // namespace sluice::detail
