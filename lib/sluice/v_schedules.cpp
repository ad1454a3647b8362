#include <sluice/v_schedules.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>

namespace sluice::detail {
namespace {

std::vector<RankId> in_a_v(int ranks) {
  std::vector<RankId> rank_of;
  rank_of.reserve(2 * static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) rank_of.push_back(RankId(r));
  for (int r = ranks - 1; r >= 0; --r) rank_of.push_back(RankId(r));
  return rank_of;
}

/// One rank's list as it grows: the next forward, input gradient and weight gradient of either
/// stage, in ascending microbatch order.
class Rank {
 public:
  enum Side : std::size_t { down, up };

  Rank(int rank, int ranks, int microbatches)
      : stages_{StageId(rank), StageId(2 * ranks - 1 - rank)}, microbatches_(microbatches) {}

  int forwards(Side side) const { return sides_[side].forward; }
  int weights(Side side) const { return sides_[side].weight; }

  void forward(Side side) { add(side, Phase::forward, sides_[side].forward++); }
  void backward(Side side) { add(side, Phase::backward, sides_[side].gradient++); }
  void input(Side side) {
    queued_.push_back({side, sides_[side].gradient});
    add(side, Phase::input_gradient, sides_[side].gradient++);
  }
  /// The next weight gradient of this side.
  void weight(Side side) { add(side, Phase::weight_gradient, sides_[side].weight++); }
  /// The weight gradient that has waited longest, of either side.
  void oldest_weight() {
    const auto [side, mb] = queued_.front();
    queued_.pop_front();
    add(side, Phase::weight_gradient, mb);
  }
  /// A forward of one side and a backward of the other at once.
  void overlapped(Side forward_side, Side backward_side) {
    overlapped_.push_back(order_.size());
    forward(forward_side);
    backward(backward_side);
  }

  void move_to(Schedule& schedule) {
    schedule.order.push_back(std::move(order_));
    schedule.overlapped.push_back(std::move(overlapped_));
  }

 private:
  struct Next {
    int forward = 0;
    int gradient = 0;
    int weight = 0;
  };
  struct Queued {
    Side side;
    int mb;
  };

  void add(Side side, Phase phase, int mb) {
    // A short batch leaves out what a long one would run.
    if (mb < microbatches_) order_.push_back(Action(stages_[side], phase, MicrobatchId(mb)));
  }

  std::array<StageId, 2> stages_;
  int microbatches_;
  std::array<Next, 2> sides_;
  std::deque<Queued> queued_;
  std::vector<Action> order_;
  std::vector<std::size_t> overlapped_;
};

constexpr Rank::Side down = Rank::down;
constexpr Rank::Side up = Rank::up;

}  // namespace

Schedule zb_v(int ranks, int microbatches) {
  Schedule schedule;
  schedule.rank_of = in_a_v(ranks);
  // Laid out for a batch that fills the V; what is beyond the batch is then left out.
  const int laid_out = std::max(2 * ranks - 1, microbatches);
  for (int r = 0; r < ranks; ++r) {
    Rank rank(r, ranks, microbatches);
    for (int i = 0; i < 2 * (ranks - r) - 1; ++i) rank.forward(down);
    for (int i = 0; i < r; ++i) {
      rank.forward(up);
      rank.forward(down);
    }
    for (int i = 0; i < ranks - r; ++i) {
      rank.forward(up);
      rank.input(up);
      rank.weight(up);
    }
    while (rank.forwards(up) < laid_out) {
      if (rank.forwards(down) < laid_out) rank.forward(down);
      rank.input(down);
      rank.weight(down);
      rank.forward(up);
      rank.input(up);
      rank.weight(up);
    }
    for (int i = 0; i < r; ++i) {
      rank.input(down);
      rank.input(up);
    }
    for (int i = 0; i < ranks - r; ++i) {
      rank.input(down);
      rank.weight(down);
    }
    while (rank.weights(up) < laid_out) rank.weight(up);
    while (rank.weights(down) < laid_out) rank.weight(down);
    rank.move_to(schedule);
  }
  return schedule;
}

Schedule dualpipe_v(int ranks, int microbatches) {
  Schedule schedule;
  schedule.rank_of = in_a_v(ranks);
  for (int r = 0; r < ranks; ++r) {
    Rank rank(r, ranks, microbatches);
    // Fill: down alone, then both ways.
    for (int i = 0; i < 2 * (ranks - r - 1); ++i) rank.forward(down);
    for (int i = 0; i < r + 1; ++i) {
      rank.forward(down);
      rank.forward(up);
    }
    // The first backwards come down the up side before there is a forward to pair them with.
    for (int i = 0; i < ranks - r - 1; ++i) {
      rank.input(up);
      rank.oldest_weight();
      rank.forward(up);
    }
    for (int i = 0; i < microbatches - 2 * ranks + r + 1; ++i) {
      if (i == 0 && r == ranks - 1) {
        // The turn of the V: its forward feeds its own backward, there is nothing to overlap yet.
        rank.forward(down);
        rank.backward(up);
      } else {
        rank.overlapped(down, up);
      }
      rank.overlapped(up, down);
    }
    for (int i = 0; i < ranks - r - 1; ++i) {
      rank.backward(up);
      rank.overlapped(up, down);
    }
    // Drain: from half-way on, weight gradients wait so that they can fill the end.
    const int half = (r + 1) / 2;
    for (int i = 0; i < r + 1; ++i) {
      const bool split_up = i > half || (i == half && r % 2 == 1);
      if (split_up) {
        rank.input(up);
      } else {
        rank.backward(up);
      }
      if (i >= half) {
        rank.input(down);
      } else {
        rank.backward(down);
      }
    }
    for (int i = 0; i < ranks - r - 1; ++i) {
      rank.oldest_weight();
      rank.input(down);
    }
    for (int i = 0; i < r + 1; ++i) rank.oldest_weight();
    rank.move_to(schedule);
  }
  return schedule;
}

}  // namespace sluice::detail
