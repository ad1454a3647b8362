#include <sluice/fuzz/invariants.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace sluice::fuzz {
namespace {

/// The timed actions by what they are.
using ByAction = std::map<Action, TimedAction>;

ByAction by_action(std::span<const TimedAction> actions) {
  ByAction result;
  for (const TimedAction& timed : actions) result.emplace(timed.action, timed);
  return result;
}

const TimedAction* find(const ByAction& actions, const Action& action) {
  const auto found = actions.find(action);
  return found == actions.end() ? nullptr : &found->second;
}

/// The action whose end lets the gradient of `stage`'s output go: B, or I of a split backward.
const TimedAction* gradient_of(const ByAction& actions, StageId stage, MicrobatchId mb) {
  const TimedAction* whole = find(actions, Action(stage, Phase::backward, mb));
  return whole != nullptr ? whole : find(actions, Action(stage, Phase::input_gradient, mb));
}

std::string describe(const TimedAction& timed) {
  return fmt::format("{} ({} to {})", to_string(timed.action), timed.start.units(),
                     timed.end.units());
}

std::string check_after(const TimedAction* cause, const TimedAction& effect, Time latency) {
  if (cause == nullptr) return fmt::format("{} has no cause", describe(effect));
  if (cause->rank == effect.rank) latency = Time();
  if (effect.start >= cause->end + latency) return "";
  return fmt::format("{} starts before {} has ended and arrived (link {})", describe(effect),
                     describe(*cause), latency.units());
}

/// A stage's count of held microbatches changes by `by` at `at`.
struct Change {
  Time at;
  int by;
};

std::vector<Change> changes_of(std::span<const TimedAction> actions, StageId stage) {
  std::vector<Change> changes;
  for (const TimedAction& timed : actions) {
    if (timed.action.stage != stage) continue;
    if (timed.action.phase == Phase::forward) changes.push_back({timed.start, 1});
    if (releases(timed.action.phase)) changes.push_back({timed.end, -1});
  }
  // At one moment ends come before starts.
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.at, a.by) < std::tie(b.at, b.by);
  });
  return changes;
}

}  // namespace

std::string complete(std::span<const TimedAction> actions, int stages, int microbatches) {
  std::map<Action, int> counts;
  for (const TimedAction& timed : actions) ++counts[timed.action];
  for (const auto& [action, count] : counts) {
    if (count != 1) return fmt::format("{} is there {} times", to_string(action), count);
    if (action.stage.value < 0 || action.stage.value >= stages || action.mb.value < 0 ||
        action.mb.value >= microbatches) {
      return fmt::format("{} is out of range", to_string(action));
    }
  }
  const auto has = [&counts](StageId stage, Phase phase, MicrobatchId mb) {
    return counts.count(Action(stage, phase, mb)) != 0;
  };
  for (StageId stage(0); stage.value < stages; stage = stage.next()) {
    for (MicrobatchId mb(0); mb.value < microbatches; mb = mb.next()) {
      const bool whole = has(stage, Phase::backward, mb);
      const bool input = has(stage, Phase::input_gradient, mb);
      const bool weight = has(stage, Phase::weight_gradient, mb);
      if (!has(stage, Phase::forward, mb)) {
        return fmt::format("{}F{} is missing", stage.value, mb.value);
      }
      if (input != weight || whole == input) {
        return fmt::format("stage {}, microbatch {}: neither one backward nor both its halves",
                           stage.value, mb.value);
      }
    }
  }
  return "";
}

std::string causal(std::span<const TimedAction> actions, int stages, int microbatches,
                   std::span<const Time> link) {
  const ByAction all = by_action(actions);
  for (MicrobatchId mb(0); mb.value < microbatches; mb = mb.next()) {
    for (StageId stage(0); stage.value < stages; stage = stage.next()) {
      const TimedAction* forward = find(all, Action(stage, Phase::forward, mb));
      const TimedAction* gradient = gradient_of(all, stage, mb);
      const TimedAction* weight = find(all, Action(stage, Phase::weight_gradient, mb));
      std::string wrong;
      if (forward != nullptr && stage.value > 0) {
        wrong = check_after(find(all, Action(stage.previous(), Phase::forward, mb)), *forward,
                            link[stage.previous().index()]);
      }
      if (wrong.empty() && gradient != nullptr) wrong = check_after(forward, *gradient, Time());
      if (wrong.empty() && gradient != nullptr && stage.value + 1 < stages) {
        wrong = check_after(gradient_of(all, stage.next(), mb), *gradient, link[stage.index()]);
      }
      if (wrong.empty() && weight != nullptr) wrong = check_after(gradient, *weight, Time());
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

std::string one_at_a_time(std::span<const TimedAction> actions, int ranks) {
  for (RankId rank(0); rank.value < ranks; rank = rank.next()) {
    std::vector<TimedAction> own;
    std::copy_if(actions.begin(), actions.end(), std::back_inserter(own),
                 [rank](const TimedAction& timed) { return timed.rank == rank; });
    std::sort(own.begin(), own.end(), [](const TimedAction& a, const TimedAction& b) {
      return std::tie(a.start, a.end) < std::tie(b.start, b.end);
    });
    for (std::size_t i = 1; i < own.size(); ++i) {
      if (own[i].start >= own[i - 1].end) continue;
      return fmt::format("rank {} runs {} and {} at once", rank.value, describe(own[i - 1]),
                         describe(own[i]));
    }
  }
  return "";
}

std::string ascending(std::span<const TimedAction> actions, int stages) {
  for (StageId stage(0); stage.value < stages; stage = stage.next()) {
    std::map<Phase, std::vector<std::pair<Time, MicrobatchId>>> by_phase;
    for (const TimedAction& timed : actions) {
      if (timed.action.stage != stage) continue;
      by_phase[timed.action.phase].emplace_back(timed.start, timed.action.mb);
    }
    for (auto& [phase, starts] : by_phase) {
      std::sort(starts.begin(), starts.end());
      for (std::size_t i = 1; i < starts.size(); ++i) {
        if (starts[i - 1].second < starts[i].second) continue;
        return fmt::format("stage {}: {}{} after {}{}", stage.value, letter(phase),
                           starts[i].second.value, letter(phase), starts[i - 1].second.value);
      }
    }
  }
  return "";
}

std::string within_credits(std::span<const TimedAction> actions, std::span<const int> credits) {
  for (std::size_t s = 0; s < credits.size(); ++s) {
    int held = 0;
    for (const Change& change : changes_of(actions, StageId(static_cast<std::int64_t>(s)))) {
      held += change.by;
      if (held <= credits[s]) continue;
      return fmt::format("stage {} holds {} at {}, its credit is {}", s, held, change.at.units(),
                         credits[s]);
    }
  }
  return "";
}

std::string within_slots(std::span<const TimedAction> actions, int slots) {
  const ByAction all = by_action(actions);
  std::vector<TimedAction> by_start(actions.begin(), actions.end());
  // At one moment a value is taken before the next is made.
  std::stable_sort(by_start.begin(), by_start.end(),
                   [](const TimedAction& a, const TimedAction& b) {
                     return std::tie(a.start, b.rank) < std::tie(b.start, a.rank);
                   });
  /// Who takes what `made` makes, if that is another rank.
  const auto taker = [&all](const TimedAction& made) -> const TimedAction* {
    const Action& action = made.action;
    if (action.phase == Phase::weight_gradient) return nullptr;
    const TimedAction* other =
        action.phase == Phase::forward
            ? find(all, Action(action.stage.next(), Phase::forward, action.mb))
            : gradient_of(all, action.stage.previous(), action.mb);
    return other == nullptr || other->rank == made.rank ? nullptr : other;
  };
  using Edge = std::tuple<RankId, StageId, bool>;
  std::map<Edge, std::vector<const TimedAction*>> waiting;  // what will take each value
  for (const TimedAction& now : by_start) {
    int on_the_rank = 0;
    for (auto& [edge, takers] : waiting) {
      std::erase_if(takers, [&now](const TimedAction* each) { return each->start <= now.start; });
      if (std::get<RankId>(edge) == now.rank) on_the_rank += static_cast<int>(takers.size());
    }
    if (slots == 0 && on_the_rank > 0) {
      return fmt::format("{} starts while its rank has something to hand over", describe(now));
    }
    const TimedAction* to = taker(now);
    if (to == nullptr) continue;
    auto& takers = waiting[Edge(now.rank, now.action.stage, now.action.phase == Phase::forward)];
    takers.push_back(to);
    if (slots > 0 && static_cast<int>(takers.size()) > slots) {
      return fmt::format("{} starts while {} values wait on its edge, of {}", describe(now),
                         takers.size() - 1, slots);
    }
  }
  return "";
}

std::string gate_respected(std::span<const TimedAction> actions, int stages, int gate) {
  const StageId last(stages - 1);
  std::optional<Time> first;
  for (const TimedAction& timed : actions) {
    if (timed.action.stage != last || timed.action.phase == Phase::forward) continue;
    if (!first || timed.start < *first) first = timed.start;
  }
  if (!first) return "";
  int held = 0;
  for (const Change& change : changes_of(actions, last)) {
    if (change.at <= *first && change.by > 0) ++held;
  }
  if (held >= gate) return "";
  return fmt::format("stage {} starts its first backward at {} holding {}, its gate is {}",
                     last.value, first->units(), held, gate);
}

}  // namespace sluice::fuzz
