#include <sluice/law_sweep.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <sluice/arrivals.hpp>
#include <sluice/law.hpp>
#include <sluice/stage_starts.hpp>

namespace sluice::detail {
namespace {

using Millionths = std::int64_t;
// Later than everything that a configuration may take.
constexpr Millionths never = std::numeric_limits<Millionths>::max() / 2;

struct Stage {
  Stage(int credit, int gate) : law(credit, gate) {}

  law::LawStage law;
  Millionths forward = 0;
  Millionths backward = 0;
  Millionths link = 0;  // to the next stage, and back
  Millionths now = 0;   // the end of what it ran last
  int next_forward = 0;
  int next_backward = 0;
  // When the next of them starts at the earliest, as far as is known. They only grow.
  Millionths forward_from = 0;
  Millionths backward_from = 0;

  Arrivals inputs;
  Arrivals gradients;
  Millionths first_start = -1;
  Millionths busy = 0;
  int peak = 0;
};

class LawSweep {
 public:
  LawSweep(int microbatches, std::span<const int> credits, const Costs& costs, Detail detail)
      : costs_(costs),
        microbatches_(microbatches),
        overhead_(costs.overhead.millionths),
        sizes_(static_cast<std::size_t>(microbatches), 1) {
    if (!costs.sizes.empty()) sizes_ = costs.sizes;
    for (std::size_t s = 0; s < credits.size(); ++s) {
      const bool last = s + 1 == credits.size();
      Stage stage(credits[s], last ? law::gate(microbatches, credits) : 0);
      stage.forward = costs.forward[s].millionths;
      stage.backward = costs.backward[s].millionths;
      stage.link = last ? 0 : costs.link[s].millionths;
      stages_.push_back(std::move(stage));
    }
    if (detail == Detail::actions) starts_.emplace(static_cast<int>(stages_.size()), microbatches);
  }

  Timeline run() {
    while (stages_.front().next_backward < microbatches_) {
      bool moved = false;
      for (std::size_t s = 0; s < stages_.size(); ++s) moved |= advance(s);
      for (std::size_t s = stages_.size(); s-- > 0;) moved |= advance(s);
      if (!moved) run_the_earliest();
    }
    return timeline();
  }

 private:
  Millionths cost(Millionths of_stage, int mb) const {
    return sizes_[static_cast<std::size_t>(mb)] * of_stage + overhead_;
  }

  /// What a stage waits for: when it can start, and whether that is known or only the earliest.
  struct Next {
    Millionths from = never;
    bool known = false;
    bool barred = true;  // not before the stage has run something itself
  };

  Next forward_of(std::size_t s) const {
    const Stage& stage = stages_[s];
    law::Offer offer;
    offer.forward = stage.next_forward < microbatches_;
    if (!stage.law.next(offer)) return {};
    if (s == 0) return {stage.now, true, false};
    if (!stage.inputs.empty()) return {std::max(stage.now, stage.inputs.front()), true, false};
    const Stage& before = stages_[s - 1];
    const Millionths arrival =
        before.forward_from + cost(before.forward, stage.next_forward) + before.link;
    return {std::max(stage.now, arrival), false, false};
  }

  Next backward_of(std::size_t s) const {
    const Stage& stage = stages_[s];
    law::Offer offer;
    offer.backward = stage.next_backward < stage.next_forward;
    if (!stage.law.next(offer)) return {};
    if (!stage.gradients.empty())
      return {std::max(stage.now, stage.gradients.front()), true, false};
    const Stage& behind = stages_[s + 1];
    const Millionths arrival =
        behind.backward_from + cost(behind.backward, stage.next_backward) + stage.link;
    return {std::max(stage.now, arrival), false, false};
  }

  /// Runs what is certain on stage `s`; whether that was anything.
  bool advance(std::size_t s) {
    Stage& stage = stages_[s];
    for (bool moved = false;; moved = true) {
      const Next forward = forward_of(s);
      const Next backward = backward_of(s);
      if (forward.known && forward.from <= backward.from) {
        run_forward(s, forward.from);
      } else if (backward.known && backward.from < forward.from) {
        run_backward(s, backward.from);
      } else {
        stage.forward_from = forward.from;
        stage.backward_from = backward.from;
        if (forward.barred && stage.next_forward < microbatches_) {
          stage.forward_from = backward.from + cost(stage.backward, stage.next_backward);
        }
        if (backward.barred && stage.next_forward < microbatches_) {
          stage.backward_from = forward.from + cost(stage.forward, stage.next_forward);
        }
        return moved;
      }
    }
  }

  void run_forward(std::size_t s, Millionths start) {
    Stage& stage = stages_[s];
    const Millionths length = cost(stage.forward, stage.next_forward);
    if (stage.first_start < 0) stage.first_start = start;
    if (starts_) starts_->forward(s, start);
    stage.now = start + length;
    stage.busy += length;
    stage.law.forward_started();
    stage.peak = std::max(stage.peak, stage.law.held());
    if (s > 0) {
      stage.inputs.pop();
    } else if (stage.next_backward == 0) {
      entered_.push_back(start);
    }
    ++stage.next_forward;
    if (s + 1 < stages_.size()) {
      stages_[s + 1].inputs.push(stage.now + stage.link);
    } else {
      stage.gradients.push(stage.now);  // of the loss
    }
  }

  void run_backward(std::size_t s, Millionths start) {
    Stage& stage = stages_[s];
    const Millionths length = cost(stage.backward, stage.next_backward);
    if (s + 1 == stages_.size() && stage.next_backward == 0) first_backward_ = start;
    if (starts_) starts_->backward(s, start);
    stage.now = start + length;
    stage.busy += length;
    stage.gradients.pop();
    ++stage.next_backward;
    stage.law.released();
    if (s > 0) {
      Stage& before = stages_[s - 1];
      before.gradients.push(stage.now + before.link);
    }
  }

  /// Stages that wait for each other's earliest moments can go on for long without being certain.
  /// Whatever can start first of all is certain: what nobody knows yet comes after it.
  void run_the_earliest() {
    Millionths earliest = never;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      for (const Next& next : {forward_of(s), backward_of(s)}) {
        if (next.known) earliest = std::min(earliest, next.from);
      }
    }
    for (Stage& stage : stages_) {
      stage.forward_from = std::max(stage.forward_from, earliest);
      stage.backward_from = std::max(stage.backward_from, earliest);
    }
  }

  Timeline timeline() const {
    Timeline timeline;
    for (const Stage& stage : stages_) {
      RankSpan& span = timeline.ranks.emplace_back();
      span.first_start = Time::from_millionths(stage.first_start);
      span.last_end = Time::from_millionths(stage.now);
      span.busy = Time::from_millionths(stage.busy);
      timeline.work += span.busy;
      timeline.makespan = std::max(timeline.makespan, span.last_end);
      timeline.peak_held.push_back(stage.peak);
    }
    timeline.entered_at_first_backward = static_cast<int>(
        std::upper_bound(entered_.begin(), entered_.end(), first_backward_) - entered_.begin());
    if (starts_) timeline.actions = starts_->merged(costs_);
    return timeline;
  }

  const Costs& costs_;
  int microbatches_;
  Millionths overhead_;
  std::vector<std::int64_t> sizes_;
  std::vector<Stage> stages_;
  std::optional<StageStarts> starts_;
  std::vector<Millionths> entered_;  // starts of stage 0's forwards before its first backward
  Millionths first_backward_ = 0;    // of the last stage, and so of all
};

}  // namespace

bool takes_time(const Costs& costs) {
  if (costs.overhead > Time()) return true;
  const auto some = [](Time time) { return time > Time(); };
  return std::all_of(costs.forward.begin(), costs.forward.end(), some) &&
         std::all_of(costs.backward.begin(), costs.backward.end(), some);
}

Timeline law_sweep(int microbatches, std::span<const int> credits, const Costs& costs,
                   Detail detail) {
  return LawSweep(microbatches, credits, costs, detail).run();
}

}  // namespace sluice::detail
