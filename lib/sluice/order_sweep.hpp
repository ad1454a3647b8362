// The order without events: every rank goes on as far as what it needs is known to arrive.
//
// A rank's order is fixed, so an action starts when its rank has come to it, its input is there and, with
// slots, one is free: nothing else can happen first. So a rank runs ahead of the others' clocks until it
// needs what nobody has made yet, and is looked at again when that is made; no queue of events is kept. It
// is the engine's fast path for orders, and a property proves that it says what the engine says. A few
// numbers a rank and two moments for each (stage, microbatch). Private to the timelines.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <sluice/arrivals.hpp>
#include <sluice/edges.hpp>
#include <sluice/ids.hpp>
#include <sluice/order_list.hpp>
#include <sluice/row_merge.hpp>
#include <sluice/timeline.hpp>

namespace sluice::detail {

template <class List>
class OrderSweep {
 public:
  /// `costs` are complete, and outlive the sweep as `rank_of` does.
  OrderSweep(std::span<const RankId> rank_of, int ranks, List list, int microbatches,
             const Costs& costs, const SimulationOptions& options)
      : list_(list),
        costs_(costs),
        microbatches_(static_cast<std::size_t>(microbatches)),
        // Rows whose length is a power of two would all sit in the same few cache sets.
        row_((microbatches_ + 7) / 8 * 8 + 8),
        ranks_(static_cast<std::size_t>(ranks)),
        rendezvous_(options.slots == 0) {
    for (std::size_t s = 0; s < rank_of.size(); ++s) add_stage(rank_of, s);
    if (options.slots) {
      edges_.resize(2 * rank_of.size());
      for (Edge& edge : edges_) edge.free = *options.slots;
    }
    if (options.detail == Detail::actions) {
      starts_.resize(ranks_.size());
      for (std::size_t r = 0; r < ranks_.size(); ++r) starts_[r].reserve(count(r));
    }
  }

  /// Runs one step, or one more behind what was run before, each rank as soon as it is free. False: the
  /// order gets stuck.
  bool run() {
    inputs_.assign(stages_.size() * row_, unknown);
    std::fill_n(inputs_.begin(), microbatches_, 0);
    gradients_.assign(stages_.size() * row_, unknown);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].done = 0;
      woken_.push_back(r);
    }
    std::vector<std::size_t> turn;
    while (!woken_.empty()) {
      turn.clear();
      std::swap(turn, woken_);
      for (const std::size_t r : turn) advance(r);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].done != count(r)) return false;
    }
    return true;
  }

  /// When the last of them has ended.
  Time makespan() const {
    std::int64_t end = 0;
    for (const Rank& rank : ranks_) end = std::max(end, rank.now);
    return Time::from_millionths(end);
  }

  /// Of the one step that has run.
  Timeline timeline() const {
    Timeline timeline;
    timeline.makespan = makespan();
    for (const Rank& rank : ranks_) {
      RankSpan& span = timeline.ranks.emplace_back();
      span.first_start = Time::from_millionths(std::max<std::int64_t>(rank.first_start, 0));
      span.last_end = Time::from_millionths(rank.now);
      span.busy = Time::from_millionths(rank.busy);
      timeline.work += span.busy;
    }
    for (const Stage& stage : stages_) timeline.peak_held.push_back(stage.peak);
    if (first_backward_ != never) {
      timeline.entered_at_first_backward = static_cast<int>(
          std::upper_bound(entered_.begin(), entered_.end(), first_backward_) - entered_.begin());
    }
    if (!starts_.empty()) timeline.actions = actions();
    return timeline;
  }

 private:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t unknown = -1;
  static constexpr std::int64_t used =
      -2;  // by an action; an order that has it twice is stuck here
  static constexpr std::int64_t input_gradient_done = -3;  // the weight gradient can use it

  struct Stage {
    std::size_t rank = 0;
    std::array<std::int64_t, 4> cost{};  // by phase
    std::int64_t link_down = 0;          // to the next stage; 0 inside a rank
    std::int64_t link_up = 0;
    bool sends_down = false;  // to another rank
    bool sends_up = false;
    int held = 0;
    int peak = 0;
  };

  /// The slots of an edge, in one direction.
  struct Edge {
    int free = 0;    // not used yet
    Arrivals freed;  // when each of the others was
    bool none() const { return free == 0 && freed.empty(); }
  };

  struct Rank {
    std::int64_t now = 0;  // the end of what it ran last
    std::int64_t busy = 0;
    std::int64_t first_start = unknown;
    std::size_t done = 0;
    const void* waits = nullptr;     // the moment or the edge without which it cannot go on
    std::array<Edge*, 2> handing{};  // with rendezvous: where its last outputs still are
  };

  void add_stage(std::span<const RankId> rank_of, std::size_t s) {
    Stage& stage = stages_.emplace_back();
    stage.rank = rank_of[s].index();
    stage.cost = {costs_.forward[s].millionths, costs_.backward[s].millionths,
                  costs_.input_gradient[s].millionths, costs_.weight_gradient[s].millionths};
    if (s == 0 || rank_of[s] == rank_of[s - 1]) return;
    Stage& before = stages_[s - 1];
    before.sends_down = stage.sends_up = true;
    before.link_down = stage.link_up = costs_.link[s - 1].millionths;
  }

  std::size_t count(std::size_t r) const {
    return list_.count(RankId(static_cast<std::int64_t>(r)));
  }

  std::int64_t length_of(const Action& action) const {
    const std::int64_t cost =
        stages_[action.stage.index()].cost[static_cast<std::size_t>(action.phase)];
    const std::int64_t size = costs_.sizes.empty() ? 1 : costs_.sizes[action.mb.index()];
    return size * cost + costs_.overhead.millionths;
  }

  std::size_t cell(std::size_t stage, const Action& action) const {
    return stage * row_ + action.mb.index();
  }

  /// When what `action` needs is there.
  std::int64_t& need_of(const Action& action) {
    auto& moments = action.phase == Phase::forward ? inputs_ : gradients_;
    return moments[cell(action.stage.index(), action)];
  }

  /// Where `action` sends to another rank, and with slots only; else nothing.
  Edge* out_of(const Action& action) {
    const std::size_t s = action.stage.index();
    if (edges_.empty() || action.phase == Phase::weight_gradient) return nullptr;
    if (action.phase == Phase::forward) return stages_[s].sends_down ? &edges_[2 * s] : nullptr;
    return stages_[s].sends_up ? &edges_[2 * s + 1] : nullptr;
  }

  void wake(std::size_t r, const void* made) {
    if (ranks_[r].waits != made) return;
    ranks_[r].waits = nullptr;
    woken_.push_back(r);
  }

  /// Runs what rank `r` can.
  void advance(std::size_t r) {
    Rank& rank = ranks_[r];
    const RankId id(static_cast<std::int64_t>(r));
    for (const std::size_t all = list_.count(id); rank.done < all;) {
      std::int64_t start = rank.now;
      if (rendezvous_ && !hand_over(rank, start)) return;
      const Action action = list_.at(id, rank.done);
      if (!can_start(rank, action, start)) return;
      std::int64_t length = length_of(action);
      if (list_.overlaps(id, rank.done)) {
        const Action other = list_.at(id, rank.done + 1);
        if (!can_start(rank, other, start)) return;
        length += length_of(other);
        begin(r, action, start, length);
        begin(r, other, start, length);
      } else {
        begin(r, action, start, length);
      }
      if (rank.first_start < 0) rank.first_start = start;
      rank.now = start + length;
      rank.busy += length;
    }
  }

  /// Lets the outputs go that rank `rank` still has; false when a taker is not known yet.
  static bool hand_over(Rank& rank, std::int64_t& start) {
    for (Edge*& edge : rank.handing) {
      if (edge == nullptr) continue;
      if (edge->freed.empty()) {
        rank.waits = edge;
        return false;
      }
      rank.now = start = std::max(start, edge->freed.front());
      edge->freed.pop();
      edge = nullptr;
    }
    return true;
  }

  /// Moves `start` to where `action` can start; false when that is not known yet.
  bool can_start(Rank& rank, const Action& action, std::int64_t& start) {
    const std::int64_t& moment = need_of(action);
    const bool here =
        action.phase == Phase::weight_gradient ? moment == input_gradient_done : moment >= 0;
    Edge* const edge = rendezvous_ ? nullptr : out_of(action);
    const bool room = edge == nullptr || !edge->none();
    if (!here || !room) {
      rank.waits = here ? static_cast<const void*>(edge) : &moment;
      return false;
    }
    start = std::max(start, moment);
    if (edge != nullptr && edge->free == 0) start = std::max(start, edge->freed.front());
    return true;
  }

  /// `action` starts on rank `r`, and ends after `length`.
  void begin(std::size_t r, const Action& action, std::int64_t start, std::int64_t length) {
    Rank& rank = ranks_[r];
    ++rank.done;
    count_held(action, start);
    if (!starts_.empty()) starts_[r].push_back(static_cast<std::uint64_t>(start) << 1U);
    if (!edges_.empty()) move_slots(rank, action, start);
    const std::int64_t end = start + length;
    const std::size_t s = action.stage.index();
    const Stage& stage = stages_[s];
    need_of(action) = action.phase == Phase::input_gradient ? input_gradient_done : used;
    switch (action.phase) {
      case Phase::forward:
        if (s + 1 < stages_.size()) {
          arrive(inputs_[cell(s + 1, action)], end + stage.link_down, stages_[s + 1].rank);
        } else {
          arrive(gradients_[cell(s, action)], end, r);  // of the loss
        }
        break;
      case Phase::weight_gradient: break;
      default:
        if (s > 0)
          arrive(gradients_[cell(s - 1, action)], end + stage.link_up, stages_[s - 1].rank);
        break;
    }
  }

  void arrive(std::int64_t& moment, std::int64_t at, std::size_t rank) {
    moment = at;
    wake(rank, &moment);
  }

  /// The output of `action` takes a slot, its input frees one.
  void move_slots(Rank& rank, const Action& action, std::int64_t start) {
    Edge* const out = out_of(action);
    if (out != nullptr && rendezvous_) {
      rank.handing[rank.handing[0] == nullptr ? 0 : 1] = out;
    } else if (out != nullptr && out->free > 0) {
      --out->free;
    } else if (out != nullptr) {
      out->freed.pop();
    }
    const std::size_t s = action.stage.index();
    const bool forward = action.phase == Phase::forward;
    const bool taken = forward ? stages_[s].sends_up
                               : action.phase != Phase::weight_gradient && stages_[s].sends_down;
    if (!taken) return;
    const std::size_t sender = forward ? s - 1 : s + 1;
    Edge& in = edges_[2 * sender + (forward ? 0 : 1)];
    in.freed.push(start);
    wake(stages_[sender].rank, &in);
  }

  void count_held(const Action& action, std::int64_t start) {
    Stage& stage = stages_[action.stage.index()];
    if (action.phase == Phase::forward) {
      stage.peak = std::max(stage.peak, ++stage.held);
      // Behind its own first backward it is too late for that of any stage.
      if (action.stage.value == 0 && !stage_0_turned_) entered_.push_back(start);
      return;
    }
    if (releases(action.phase)) --stage.held;
    if (action.stage.value == 0) stage_0_turned_ = true;
    first_backward_ = std::min(first_backward_, start);
  }

  std::vector<TimedAction> actions() const {
    std::vector<TimedAction> actions;
    std::size_t all = 0;
    for (const auto& of_rank : starts_) all += of_rank.size();
    actions.reserve(all);
    std::vector<std::size_t> next(starts_.size(), 0);
    for (RowMerge merge(starts_); !merge.empty(); merge.pop()) {
      const RankId rank(static_cast<std::int64_t>(merge.row()));
      const std::size_t k = next[merge.row()]++;
      TimedAction timed;
      timed.action = list_.at(rank, k);
      timed.rank = rank;
      timed.start = Time::from_millionths(static_cast<std::int64_t>(merge.number() >> 1U));
      std::int64_t length = length_of(timed.action);
      if (list_.overlaps(rank, k)) length += length_of(list_.at(rank, k + 1));
      if (k > 0 && list_.overlaps(rank, k - 1)) length += length_of(list_.at(rank, k - 1));
      timed.end = timed.start + Time::from_millionths(length);
      actions.push_back(timed);
    }
    return actions;
  }

  List list_;
  const Costs& costs_;
  std::size_t microbatches_;
  std::size_t row_;
  std::vector<Stage> stages_;
  std::vector<Rank> ranks_;
  bool rendezvous_;
  // By stage, then microbatch: when the input of its forward, and of its backward, is there.
  std::vector<std::int64_t> inputs_;
  std::vector<std::int64_t> gradients_;
  std::vector<Edge> edges_;         // by sending stage and direction; empty: never blocking
  std::vector<std::size_t> woken_;  // ranks that may be able to go on
  std::vector<std::vector<std::uint64_t>> starts_;  // by rank; empty: not kept
  std::vector<std::int64_t> entered_;               // starts of stage 0's forwards
  std::int64_t first_backward_ = never;
  bool stage_0_turned_ = false;
};

}  // namespace sluice::detail
