// The virtual-time engine: moves microbatches through stages, one moment after the other.
//
// Who decides what a rank runs next is the template parameter: the law, an order, or a policy.
// Everything else is the same for all: what has arrived where (Board), who is busy until when, what is counted.
// Constant work per action, flat arrays, no allocation per action. Private to the timelines.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <sluice/board.hpp>
#include <sluice/ids.hpp>
#include <sluice/moment_queue.hpp>
#include <sluice/time.hpp>
#include <sluice/timeline.hpp>

namespace sluice::detail {

/// `Decider` says what a rank would run next:
///   std::optional<Action> next(RankId, const Board&) const;  what may start now, if anything
///   std::optional<Action> wanted(RankId) const;              what it waits for; nothing: done
///   void started(RankId, const Action&);
///   std::optional<Action> partner(RankId) const;             what overlaps with `wanted`, if anything
///   void ended(const Action&);                               it no longer runs
template <class Decider>
class Engine {
 public:
  Engine(Decider& decider, std::span<const RankId> rank_of, int ranks, int microbatches,
         const Costs& costs, const SimulationOptions& options)
      : decider_(decider),
        board_(rank_of, microbatches, options.slots),
        costs_(costs),
        keep_actions_(options.detail == Detail::actions),
        ranks_(static_cast<std::size_t>(ranks)),
        held_(rank_of.size(), 0) {
    if (board_.rendezvous()) latest_.resize(ranks_.size());
    timeline_.ranks.resize(ranks_.size());
    timeline_.peak_held.resize(rank_of.size(), 0);
    for (std::size_t s = 0; s < rank_of.size(); ++s) {
      cost_of_.push_back({costs_.forward[s], costs_.backward[s], costs_.input_gradient[s],
                          costs_.weight_gradient[s]});
    }
  }

  /// Requires that the decider has `actions` actions to start.
  Timeline run(std::size_t actions) {
    if (keep_actions_) timeline_.actions.reserve(actions);
    for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) touch(RankId(r));
    decide_all();
    std::vector<Event> moment;
    while (!queue_.empty()) {
      now_ = Time::from_millionths(queue_.take(moment));
      for (const Event& event : moment) apply(event);
      decide_all();
    }
    if (started_ != actions) throw_stuck();
    for (const RankSpan& span : timeline_.ranks) timeline_.work += span.busy;
    return std::move(timeline_);
  }

 private:
  /// The end of an action, or the arrival of its output at the neighbour.
  struct Event {
    std::int64_t at;
    std::int32_t mb;
    std::uint32_t stage : 28;
    std::uint32_t phase : 2;
    std::uint32_t arrival : 1;
  };

  struct RankState {
    int busy = 0;          // actions that run, or whose output stays with the rank
    bool touched = false;  // in touched_
    bool began = false;    // has started its first action
  };

  Time duration(const Action& action) const {
    const Time cost = cost_of_[action.stage.index()][static_cast<std::size_t>(action.phase)];
    if (costs_.sizes.empty()) return cost + costs_.overhead;
    return costs_.sizes[action.mb.index()] * cost + costs_.overhead;
  }

  void apply(const Event& event) {
    const Action action(StageId(event.stage), static_cast<Phase>(event.phase),
                        MicrobatchId(event.mb));
    if (event.arrival != 0) {
      deliver(action);
    } else {
      end(action);
    }
  }

  void end(const Action& action) {
    const RankId rank = board_.rank_of(action.stage);
    // With rendezvous the rank stays with its output; `start` of the taker lets it go.
    if (!board_.rendezvous() || !board_.receiver(action)) --ranks_[rank.index()].busy;
    touch(rank);
    if (action.phase == Phase::input_gradient) {
      board_.input_gradient_ended(action.stage, action.mb);
    }
    if (releases(action.phase)) --held_[action.stage.index()];
    decider_.ended(action);
    if (action.phase == Phase::forward && board_.is_last(action.stage)) {
      board_.gradient_arrived(action.stage, action.mb);  // of the loss
      return;
    }
    if (!board_.target(action)) return;
    const std::size_t edge = action.stage.index() - (action.phase == Phase::forward ? 0 : 1);
    if (costs_.link[edge] == Time() || !board_.receiver(action)) {
      deliver(action);
    } else {
      push(now_ + costs_.link[edge], action, true);
    }
  }

  /// The output of `action` is where it is needed.
  void deliver(const Action& action) {
    const StageId to = *board_.target(action);
    if (action.phase == Phase::forward) {
      board_.input_arrived(to, action.mb);
    } else {
      board_.gradient_arrived(to, action.mb);
    }
    touch(board_.rank_of(to));
  }

  /// What `rank` may do now can have changed.
  void touch(RankId rank) {
    RankState& state = ranks_[rank.index()];
    if (state.touched) return;
    state.touched = true;
    touched_.push_back(rank);
  }

  /// Lets every touched rank decide. A start can free a slot, so there can be several rounds.
  void decide_all() {
    const std::size_t first = timeline_.actions.size();
    while (!touched_.empty()) {
      std::swap(touched_, deciding_);
      // Only slots make the order of decisions matter: from the last rank down, a forward frees its
      // slot before the previous stage decides. Otherwise it is for the order of the output.
      if (keep_actions_ || board_.limited()) {
        std::sort(deciding_.begin(), deciding_.end(), std::greater<>());
      }
      for (const RankId rank : deciding_) {
        ranks_[rank.index()].touched = false;
        if (ranks_[rank.index()].busy != 0) continue;
        const auto action = decider_.next(rank, board_);
        if (!action) continue;
        if (const auto other = decider_.partner(rank)) {
          // Both at once, both done when the sum of both is over.
          const Time length = duration(*action) + duration(*other);
          start(rank, *action, length);
          start(rank, *other, length);
          timeline_.ranks[rank.index()].busy += length;
        } else {
          const Time length = duration(*action);
          start(rank, *action, length);
          timeline_.ranks[rank.index()].busy += length;
        }
      }
      deciding_.clear();
    }
    std::sort(timeline_.actions.begin() + static_cast<std::ptrdiff_t>(first),
              timeline_.actions.end(), [](const TimedAction& a, const TimedAction& b) {
                // Two of one rank are a forward and the backward that overlaps with it.
                return std::tie(a.rank, a.action.phase) < std::tie(b.rank, b.action.phase);
              });
    if (backward_seen_ && timeline_.entered_at_first_backward == 0) {
      timeline_.entered_at_first_backward = entered_;
    }
  }

  void start(RankId rank, const Action& action, Time length) {
    const Time until = now_ + length;
    RankState& state = ranks_[rank.index()];
    if (board_.rendezvous()) latest_[rank.index()][state.busy == 0 ? 0 : 1] = action;
    ++state.busy;
    ++started_;
    decider_.started(rank, action);
    push(until, action, false);
    if (board_.limited()) {
      board_.move_slots(action);
      if (const auto from = board_.sender(action)) {
        const RankId sender = board_.rank_of(*from);
        if (board_.rendezvous()) --ranks_[sender.index()].busy;
        touch(sender);
      }
    }
    count(rank, action, until);
    if (keep_actions_) timeline_.actions.push_back({action, rank, now_, until});
  }

  void count(RankId rank, const Action& action, Time until) {
    RankSpan& span = timeline_.ranks[rank.index()];
    if (!std::exchange(ranks_[rank.index()].began, true)) span.first_start = now_;
    span.last_end = until;
    timeline_.makespan = std::max(timeline_.makespan, until);
    if (action.phase == Phase::forward) {
      const int held = ++held_[action.stage.index()];
      int& peak = timeline_.peak_held[action.stage.index()];
      peak = std::max(peak, held);
      if (action.stage.value == 0) ++entered_;
    } else {
      backward_seen_ = true;
    }
  }

  void push(Time at, const Action& action, bool arrival) {
    queue_.push({at.millionths, action.mb.value, static_cast<std::uint32_t>(action.stage.value),
                 static_cast<std::uint32_t>(action.phase), arrival ? 1U : 0U});
  }

  /// What keeps `rank` from going on; nothing when it has done everything.
  std::optional<Wait> wait_of(RankId rank) const {
    Wait wait;
    wait.rank = rank;
    auto wanted = decider_.wanted(rank);
    if (const auto other = decider_.partner(rank); other && board_.has_input(*wanted)) {
      if (!board_.has_input(*other) || board_.has_slot(*wanted)) wanted = other;
    }
    if (ranks_[rank.index()].busy != 0) {
      const auto& latest = latest_[rank.index()];
      const bool first = board_.receiver(latest[0]) && !board_.taken(latest[0]);
      wait.what = Wait::For::handover;
      wait.action = latest[first ? 0 : 1];
      wait.until = Action(*board_.receiver(wait.action), wait.action.phase, wait.action.mb);
    } else if (!wanted) {
      return std::nullopt;
    } else if (wait.action = *wanted; board_.has_input(*wanted)) {
      wait.what = Wait::For::slot;
      wait.until = board_.next_taker(*wanted);
    } else {
      wait.until = *wanted;
      if (wanted->phase == Phase::forward) {
        wait.until.stage = wanted->stage.previous();
      } else if (wanted->phase == Phase::weight_gradient) {
        wait.until.phase = Phase::input_gradient;
      } else if (board_.is_last(wanted->stage)) {
        wait.until.phase = Phase::forward;
      } else {
        wait.until.stage = wanted->stage.next();
      }
    }
    wait.other = board_.rank_of(wait.until.stage);
    return wait;
  }

  /// Follows the waits from the first rank that has one until they close or end.
  [[noreturn]] void throw_stuck() const {
    std::vector<Wait> waits;
    std::vector<std::ptrdiff_t> position(ranks_.size(), -1);
    RankId rank(0);
    while (!wait_of(rank)) rank = rank.next();
    while (position[rank.index()] < 0) {
      const auto wait = wait_of(rank);
      if (!wait) throw StuckError(std::move(waits), false);
      position[rank.index()] = static_cast<std::ptrdiff_t>(waits.size());
      waits.push_back(*wait);
      rank = wait->other;
    }
    waits.erase(waits.begin(), waits.begin() + position[rank.index()]);
    throw StuckError(std::move(waits), true);
  }

  Decider& decider_;
  Board board_;
  const Costs& costs_;  // complete
  bool keep_actions_;
  std::vector<std::array<Time, 4>> cost_of_;  // by stage, then phase
  std::vector<RankState> ranks_;
  // With rendezvous: what a rank runs, or has run. One action, or two that overlap.
  std::vector<std::array<Action, 2>> latest_;
  std::vector<int> held_;
  MomentQueue<Event> queue_;
  std::vector<RankId> touched_;
  std::vector<RankId> deciding_;
  Time now_;
  std::size_t started_ = 0;
  int entered_ = 0;
  bool backward_seen_ = false;
  Timeline timeline_;
};

}  // namespace sluice::detail
