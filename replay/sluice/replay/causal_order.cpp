#include <sluice/replay/causal_order.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

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

}  // namespace

std::vector<std::size_t> order_causally(std::vector<std::vector<Event>>& ranks, int stages) {
  Clocks clocks(ranks, stages);
  std::vector<std::size_t> done(ranks.size(), 0);
  std::vector<std::int64_t> lamport(ranks.size(), 0);
  const auto tick = [&](std::size_t r, std::int64_t input) {
    Event& event = ranks[r][done[r]++];
    lamport[r] = std::max(lamport[r], input) + 1;
    event.lamport = lamport[r];
    if (event.kind == Event::Kind::exit) clocks.ended(event);
  };

  // Each rank goes as far as its inputs let it, until none moves.
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      while (done[r] < ranks[r].size()) {
        const Event& event = ranks[r][done[r]];
        const auto input = event.kind == Event::Kind::enter ? clocks.input_of(event.action) : 0;
        if (!input) break;
        tick(r, *input);
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
