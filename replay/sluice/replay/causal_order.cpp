#include <sluice/replay/causal_order.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include <sluice/edges.hpp>

namespace sluice::replay {
namespace {

class Clocks {
 public:
  Clocks(const std::vector<std::vector<Event>>& ranks, int stages) : last_(stages - 1) {
    for (const auto& events : ranks) {
      for (const Event& event : events) {
        if (event.kind == Event::Kind::exit) ends_.emplace_back(event.action, not_yet);
      }
    }
    std::sort(ends_.begin(), ends_.end());
  }

  void ended(const Event& exit) { place_of(exit.action)->second = exit.lamport; }

  /// When the input of `action` was there; 0 for what comes from outside, nothing when its cause has
  /// not ended yet.
  std::optional<std::int64_t> input_of(const Action& action) {
    switch (action.phase) {
      case Phase::forward:
        if (action.stage == StageId(0)) return 0;
        return end_of(action.stage.previous(), Phase::forward, action.mb);
      case Phase::backward:
      case Phase::input_gradient:
        if (action.stage == last_) return end_of(last_, Phase::forward, action.mb);
        if (const auto end = end_of(action.stage.next(), Phase::backward, action.mb)) return end;
        return end_of(action.stage.next(), Phase::input_gradient, action.mb);
      case Phase::weight_gradient: return end_of(action.stage, Phase::input_gradient, action.mb);
    }
    return std::nullopt;
  }

 private:
  std::optional<std::int64_t> end_of(StageId stage, Phase phase, MicrobatchId mb) {
    const Action action(stage, phase, mb);
    const auto place = place_of(action);
    if (place == ends_.end() || place->first != action || place->second == not_yet) {
      return std::nullopt;
    }
    return place->second;
  }

  using Ends = std::vector<std::pair<Action, std::int64_t>>;
  static constexpr std::int64_t not_yet = 0;  // the first event of a rank is at 1

  Ends::iterator place_of(const Action& action) {
    return std::lower_bound(ends_.begin(), ends_.end(), std::pair(action, not_yet));
  }

  StageId last_;
  Ends ends_;  // by action
};

/// When slots became free, as slots.hpp has it: the n-th value on an edge waits until the receiver has
/// started on the one that was there `slots` values before it; without any slots, a rank's next action
/// waits until all its outputs have been taken.
class SlotClocks {
 public:
  SlotClocks(std::span<const RankId> rank_of, std::optional<int> slots)
      : rank_of_(rank_of), slots_(slots), edges_(slots ? 2 * rank_of.size() : 0) {}

  /// When there was room for the output of `action`; 0 for from the beginning, nothing when what makes
  /// the room has not started yet.
  std::optional<std::int64_t> room_for(const Action& action) const {
    if (!slots_) return 0;
    if (*slots_ == 0) return all_taken(rank_of_[action.stage.index()]);
    if (!detail::receiver_of(rank_of_, action)) return 0;
    const Edge& edge = edges_[place(action)];
    const auto slots = static_cast<std::size_t>(*slots_);
    if (edge.sent < slots) return 0;
    const std::size_t freed_by = edge.sent - slots;
    if (freed_by >= edge.freed.size()) return std::nullopt;
    return edge.freed[freed_by];
  }

  void started(const Action& action, std::int64_t lamport) {
    if (!slots_) return;
    if (detail::receiver_of(rank_of_, action)) ++edges_[place(action)].sent;
    if (const auto from = detail::sender_of(rank_of_, action)) {
      edges_[place(Action(*from, action.phase, action.mb))].freed.push_back(lamport);
    }
  }

 private:
  struct Edge {
    std::size_t sent = 0;
    std::vector<std::int64_t> freed;  // when the receiver started on each value
  };

  std::optional<std::int64_t> all_taken(RankId rank) const {
    std::int64_t last = 0;
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      if (rank_of_[i / 2] != rank) continue;
      if (edges_[i].freed.size() < edges_[i].sent) return std::nullopt;
      if (!edges_[i].freed.empty()) last = std::max(last, edges_[i].freed.back());
    }
    return last;
  }

  /// On which `action` puts its output. Two a stage.
  static std::size_t place(const Action& action) {
    return 2 * action.stage.index() + (action.phase == Phase::forward ? 0 : 1);
  }

  std::span<const RankId> rank_of_;
  std::optional<int> slots_;
  std::vector<Edge> edges_;
};

}  // namespace

std::vector<std::size_t> order_causally(std::vector<std::vector<Event>>& ranks,
                                        std::span<const RankId> rank_of, std::optional<int> slots) {
  Clocks clocks(ranks, static_cast<int>(rank_of.size()));
  SlotClocks rooms(rank_of, slots);
  std::vector<std::size_t> done(ranks.size(), 0);
  std::vector<std::int64_t> lamport(ranks.size(), 0);
  const auto tick = [&](std::size_t r, std::int64_t input) {
    Event& event = ranks[r][done[r]++];
    lamport[r] = std::max(lamport[r], input) + 1;
    event.lamport = lamport[r];
    if (event.kind == Event::Kind::enter) rooms.started(event.action, event.lamport);
    if (event.kind == Event::Kind::exit) clocks.ended(event);
  };

  // Each rank goes as far as its inputs let it, until none moves.
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      while (done[r] < ranks[r].size()) {
        const Event& event = ranks[r][done[r]];
        const bool enters = event.kind == Event::Kind::enter;
        const auto input = enters ? clocks.input_of(event.action) : 0;
        const auto room = enters ? rooms.room_for(event.action) : 0;
        if (!input || !room) break;
        tick(r, std::max(*input, *room));
        moved = true;
      }
    }
  }

  // What no order explains still gets its place within its rank.
  const auto possible = done;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    while (done[r] < ranks[r].size()) tick(r, 0);
  }
  return possible;
}

}  // namespace sluice::replay
