// Slots: how many values wait between neighbouring stages of a running step, per edge and direction.
//
// Rule 2 of the law: an action starts only if there is a slot for its output. The output has its slot
// from the start of its action until the next stage starts on it. Without slots at all (rendezvous) a
// rank stays with its outputs until each has been taken. Shared by the ranks of a step; of an edge each
// member says which of its two ends calls it, on that end's executor.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/plan.hpp>

namespace sluice::detail {

class Slots {
 public:
  /// `plan` outlives the slots.
  explicit Slots(const Plan& plan);

  /// False: no action ever waits for a slot, and nothing else here need be called.
  bool limited() const { return !edges_.empty(); }

  /// The sender: whether `action`, one of its own, may start.
  bool free_for(const Action& action) const;

  /// The sender starts `action`: its output takes a slot. Returns the Lamport time of the start that
  /// freed it, so that the log shows it before this one; 0: it was free from the beginning.
  std::int64_t take(const Action& action);

  /// The receiver has started `action` at that Lamport time: its input frees a slot. Returns the rank
  /// that may have waited for it.
  std::optional<RankId> release(const Action& action, std::int64_t lamport);

 private:
  struct Edge {
    std::atomic<int> taken{0};
    std::int64_t sent = 0;      // the sender's
    std::int64_t received = 0;  // the receiver's
    // When the slots were freed; the receiver writes one before it lowers `taken`, the sender reads it
    // after it has seen that, and before it sends what will free it again.
    std::vector<std::int64_t> freed;
  };

  bool rendezvous() const { return limit_ == 0; }
  template <class Visit>
  void each_out(RankId rank, Visit visit) const;
  /// On which `action` puts its output. Two a stage.
  std::size_t place(const Action& action) const {
    return 2 * action.stage.index() + (action.phase == Phase::forward ? 0 : 1);
  }

  const Plan& plan_;
  int limit_ = 0;
  std::vector<Edge> edges_;
};

}  // namespace sluice::detail
