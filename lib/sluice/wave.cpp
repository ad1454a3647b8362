#include <sluice/wave.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <sluice/stage_starts.hpp>

namespace sluice::detail {
namespace {

using Millionths = std::int64_t;

/// The stages of one parity: every step runs the forwards of one and the backwards of the other.
struct Half {
  std::vector<Millionths> forward;
  std::vector<Millionths> backward;
  std::vector<Millionths> link_down;  // behind the stage; 0 behind the last
  std::vector<Millionths> link_up;    // before the stage; 0 before the first
  std::vector<Millionths> end;        // of what the stage ran last
  std::vector<Millionths> input;      // when the next forward's input is there
  std::vector<Millionths> gradient;   // when the next backward's is
};

class Wave {
 public:
  Wave(int stages, int microbatches, int drain_depth, const Costs& costs, Detail detail)
      : costs_(costs),
        stages_(stages),
        microbatches_(microbatches),
        drain_depth_(drain_depth),
        overhead_(costs.overhead.millionths) {
    for (int s = 0; s < stages; ++s) {
      const auto stage = static_cast<std::size_t>(s);
      Half& half = halves_[s % 2];
      half.forward.push_back(costs.forward[stage].millionths);
      half.backward.push_back(costs.backward[stage].millionths);
      half.link_down.push_back(s + 1 < stages ? costs.link[stage].millionths : 0);
      half.link_up.push_back(s > 0 ? costs.link[stage - 1].millionths : 0);
    }
    for (Half& half : halves_) {
      // One more than there are stages: the neighbour behind the last takes what nobody reads.
      half.end.assign(half.forward.size() + 1, 0);
      half.input = half.gradient = half.end;
    }
    sizes_.assign(static_cast<std::size_t>(microbatches), 1);
    if (!costs.sizes.empty()) sizes_ = costs.sizes;
    // A step's stages have falling microbatches in its forwards; so both walk through memory upward.
    falling_.assign(sizes_.rbegin(), sizes_.rend());
    first_input_.assign(static_cast<std::size_t>(stages), 0);
    if (detail == Detail::actions) starts_.emplace(stages, microbatches);
  }

  Timeline run() {
    const std::int64_t first_gradient = 2 * std::int64_t{drain_depth_} + 2 - stages_;
    const std::int64_t steps = 2 * (std::int64_t{microbatches_} + drain_depth_);
    for (std::int64_t step = 0; step < steps; ++step) {
      // The other parity's backwards read nothing that these forwards write.
      forwards(step);
      if (step >= first_gradient) backwards(step);
      if (step == first_gradient) first_backward_ = last_end() - cost(last().backward.back(), 0);
    }
    return timeline();
  }

 private:
  Half& half(std::int64_t stage) { return halves_[stage % 2]; }
  const Half& last() const { return halves_[(stages_ - 1) % 2]; }
  Millionths last_end() const { return last().end[last().backward.size() - 1]; }
  Millionths cost(Millionths of_stage, std::size_t mb) const {
    return sizes_[mb] * of_stage + overhead_;
  }

  /// The stages s of `step` with s <= step and step - s <= 2 (M - 1), every other one.
  void forwards(std::int64_t step) {
    const std::int64_t parity = step % 2;
    std::int64_t from = std::max(parity, step - 2 * (std::int64_t{microbatches_} - 1));
    const std::int64_t to = std::min<std::int64_t>(stages_ - 1, step);
    if (from > to) return;
    const std::int64_t count = (to - from) / 2 + 1;
    Half& own = half(parity);
    Half& next = half(parity + 1);
    const std::int64_t first = from / 2;
    const Millionths* const cost = own.forward.data() + first;
    const Millionths* const link = own.link_down.data() + first;
    // The microbatch of stage `from` is (step - from) / 2, and falls by one a stage.
    const Millionths* const size = falling_.data() + (microbatches_ - 1 - (step - from) / 2);
    const Millionths* const input = own.input.data() + first;
    Millionths* const end = own.end.data() + first;
    Millionths* const arrival = next.input.data() + (from + 1) / 2;
    if (step == to) first_input_[static_cast<std::size_t>(to)] = input[count - 1];
    for (std::int64_t i = 0; i < count; ++i) {
      const Millionths start = std::max(end[i], input[i]);
      end[i] = start + size[i] * cost[i] + overhead_;
      arrival[i] = end[i] + link[i];
    }
    if (!starts_) return;
    for (std::int64_t i = 0; i < count; ++i) {
      starts_->forward(static_cast<std::size_t>(from + 2 * i),
                       end[i] - size[i] * cost[i] - overhead_);
    }
  }

  /// The stages s of `step` with step + s >= 2 W + 1 and step + s <= 2 W + 1 + 2 (M - 1).
  void backwards(std::int64_t step) {
    const std::int64_t turn = 2 * std::int64_t{drain_depth_} + 1;
    const std::int64_t parity = (step + 1) % 2;
    const std::int64_t from = std::max(parity, turn - step);
    std::int64_t to = turn + 2 * (std::int64_t{microbatches_} - 1) - step;
    to = std::min<std::int64_t>(to, stages_ - 1 - (stages_ - 1 + parity) % 2);
    if (from > to) return;
    std::int64_t count = (to - from) / 2 + 1;
    Half& own = half(parity);
    Half& next = half(parity + 1);
    std::int64_t first = from / 2;
    const Millionths* size = sizes_.data() + (step + from - turn) / 2;
    if (from == 0) {
      // Stage 0 hands its gradient to nobody.
      const Millionths start = std::max(own.end[0], own.gradient[0]);
      own.end[0] = start + *size * own.backward[0] + overhead_;
      if (starts_) starts_->backward(0, start);
      ++first;
      ++size;
      if (--count == 0) return;
    }
    const Millionths* const cost = own.backward.data() + first;
    const Millionths* const link = own.link_up.data() + first;
    const Millionths* const gradient = own.gradient.data() + first;
    Millionths* const end = own.end.data() + first;
    Millionths* const arrival = next.gradient.data() + (2 * first + parity - 1) / 2;
    for (std::int64_t i = 0; i < count; ++i) {
      const Millionths start = std::max(end[i], gradient[i]);
      end[i] = start + size[i] * cost[i] + overhead_;
      arrival[i] = end[i] + link[i];
    }
    if (!starts_) return;
    for (std::int64_t i = 0; i < count; ++i) {
      starts_->backward(static_cast<std::size_t>(2 * (first + i) + parity),
                        end[i] - size[i] * cost[i] - overhead_);
    }
  }

  Timeline timeline() const {
    Timeline timeline;
    std::int64_t samples = 0;
    for (const std::int64_t size : sizes_) samples += size;
    for (int s = 0; s < stages_; ++s) {
      const Half& half = halves_[s % 2];
      const auto at = static_cast<std::size_t>(s / 2);
      RankSpan& span = timeline.ranks.emplace_back();
      span.first_start = Time::from_millionths(first_input_[static_cast<std::size_t>(s)]);
      span.last_end = Time::from_millionths(half.end[at]);
      span.busy = Time::from_millionths(samples * (half.forward[at] + half.backward[at]) +
                                        2 * std::int64_t{microbatches_} * overhead_);
      timeline.work += span.busy;
      timeline.makespan = std::max(timeline.makespan, span.last_end);
      timeline.peak_held.push_back(std::min(microbatches_, drain_depth_ - s + 1));
    }
    timeline.entered_at_first_backward = entered();
    if (starts_) timeline.actions = starts_->merged(costs_);
    return timeline;
  }

  /// Until its first backward, stage 0 waits for nothing between its forwards.
  int entered() const {
    const int warm_up = std::min(microbatches_, drain_depth_ + 1);
    Millionths start = 0;
    int count = 0;
    while (count < warm_up && start <= first_backward_) {
      start += cost(halves_[0].forward[0], static_cast<std::size_t>(count));
      ++count;
    }
    return count;
  }

  const Costs& costs_;
  int stages_;
  int microbatches_;
  int drain_depth_;
  Millionths overhead_;
  Half halves_[2];
  std::vector<Millionths> sizes_;    // by microbatch
  std::vector<Millionths> falling_;  // the same from the last to the first
  std::vector<Millionths> first_input_;
  Millionths first_backward_ = 0;
  std::optional<StageStarts> starts_;
};

}  // namespace

Timeline wave(int stages, int microbatches, int drain_depth, const Costs& costs, Detail detail) {
  // Beyond fill-and-drain a larger W gives the same order.
  const int depth = std::min(drain_depth, microbatches + stages - 2);
  return Wave(stages, microbatches, depth, costs, detail).run();
}

}  // namespace sluice::detail
