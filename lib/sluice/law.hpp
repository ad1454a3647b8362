// The law of the drain depth: W is how many microbatches enter behind microbatch 0 before its
// backward starts. Everything is local to a stage; no global counter is consulted.
//
//   1. Stage s may hold at most c_s = 1 + min(W, max(W, S-1) - s) microbatches.
//   2. An action starts only if there is a slot for its output. A stage that has a free credit and
//      an input then runs the next forward; otherwise the next ready backward.
//   3. The last stage starts its first backward only when it holds min(M, min over s of c_s). Once
//      open, the gate stays open.
//
// W = 0 is one microbatch at a time, W = S-1 is 1F1B, W >= M+S-2 is fill-and-drain.
//
// The virtual-time engine (timeline.hpp) and the adaptive policy (policy.hpp) both ask LawStage, so
// what is planned and what is run cannot drift apart. Pure value types; any executor.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <sluice/ids.hpp>

namespace sluice::law {

/// Rule 1 for every stage: c_0..c_{S-1}. Requires stages >= 1 and drain_depth >= 0.
std::vector<int> credits(int stages, int drain_depth);

/// Rule 3: how many microbatches the last stage holds when its first backward starts.
/// Requires a non-empty vector of credits >= 1.
int gate(int microbatches, std::span<const int> credits);

/// What a stage finds when it is about to decide.
struct Offer {
  bool forward = false;   ///< the next forward's input is here, and there is a slot for its output
  bool backward = false;  ///< the next backward's input is here, and there is a slot for its output
};

/// Rules 2 and 3 for one stage: how much it holds, and what it does next.
class LawStage {
 public:
  /// `credit`: the most microbatches this stage may hold. `gate`: for the last stage, what it must
  /// hold before its first backward; 0 for every other stage.
  explicit LawStage(int credit, int gate = 0) : credit_(credit), gate_(gate) {}

  /// Rule 2. Nothing: wait for an arrival.
  std::optional<Phase> next(const Offer& offer) const {
    if (offer.forward && held_ < credit_) return Phase::forward;
    if (offer.backward && open_) return Phase::backward;
    return std::nullopt;
  }

  /// A forward has started: the microbatch is held from now on.
  void forward_started() {
    ++held_;
    // Latched. A gate that is tested on every turn never drains the tail: the last microbatches
    // are fewer than the gate asks for.
    open_ = open_ || held_ >= gate_;
  }

  /// A backward (or, when it is split, its weight gradient) has ended.
  void released() { --held_; }

  int held() const { return held_; }
  bool open() const { return open_; }

 private:
  int credit_;
  int gate_;
  int held_ = 0;
  bool open_ = gate_ == 0;
};

}  // namespace sluice::law
