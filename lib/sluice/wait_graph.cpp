#include <sluice/wait_graph.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <sluice/edges.hpp>

namespace sluice {
namespace {

/// What has to end before `action` can start; nothing for stage 0's forwards.
std::optional<Action> cause_of(const Plan& plan, const Action& action) {
  const StageId last(plan.stages - 1);
  switch (action.phase) {
    case Phase::forward:
      if (action.stage == StageId(0)) return std::nullopt;
      return Action(action.stage.previous(), Phase::forward, action.mb);
    case Phase::weight_gradient: return Action(action.stage, Phase::input_gradient, action.mb);
    case Phase::backward:
    case Phase::input_gradient:
      if (action.stage == last) return Action(last, Phase::forward, action.mb);
      return Action(action.stage.next(), Phase::backward, action.mb);  // or I, see `same`
  }
  return std::nullopt;
}

/// Whether `done` is what `cause` asks for: a backward in one piece and its input gradient are alike.
bool same(const Action& done, const Action& cause) {
  const auto whole = [](Phase phase) {
    return phase == Phase::input_gradient ? Phase::backward : phase;
  };
  return done.stage == cause.stage && done.mb == cause.mb &&
         whole(done.phase) == whole(cause.phase);
}

class Drawing {
 public:
  Drawing(const Plan& plan, std::span<const RankPosition> positions, int entered,
          std::span<const Crossing> crossings)
      : plan_(plan), positions_(positions), entered_(entered), crossings_(crossings) {}

  WaitGraph draw() const {
    WaitGraph graph;
    graph.positions.assign(positions_.begin(), positions_.end());
    for (const RankPosition& at : positions_) {
      if (at.running || at.ended) continue;
      if (auto stays = handover(at)) {
        graph.waits.push_back(*std::move(stays));
        continue;
      }
      for (const Action& wanted : wants(at)) graph.waits.push_back(wait(at, wanted));
    }
    graph.cycle = cycle(graph.waits);
    return graph;
  }

 private:
  /// Zero slots: the rank stays with the output of its last action until somebody takes it.
  std::optional<RankWait> handover(const RankPosition& at) const {
    if (plan_.slots != 0 || at.started == 0) return std::nullopt;
    const auto to = detail::receiver_of(plan_.rank_of, at.last);
    if (!to || started(*to, at.last.phase) >= started(at.last.stage, at.last.phase)) {
      return std::nullopt;
    }
    return until_taken(at, at.last, *to, "hand over");
  }

  /// Why `wanted`, whose input is here, has no slot for its output; nothing when it has one.
  std::optional<RankWait> full(const RankPosition& at, const Action& wanted) const {
    if (!plan_.slots || *plan_.slots == 0) return std::nullopt;
    const auto to = detail::receiver_of(plan_.rank_of, wanted);
    if (!to) return std::nullopt;
    const std::int64_t waiting = started(wanted.stage, wanted.phase) - started(*to, wanted.phase);
    if (waiting < *plan_.slots) return std::nullopt;
    return until_taken(at, wanted, *to, "find a slot for");
  }

  RankWait until_taken(const RankPosition& at, const Action& output, StageId to,
                       std::string_view purpose) const {
    RankWait wait;
    wait.rank = at.rank;
    wait.wants = output;
    wait.until = taker(output, to);
    wait.holder = plan_.rank_of[to.index()];
    wait.why = fmt::format("to {} its output: rank {} has not started {}", purpose,
                           wait.holder->value, to_string(*wait.until));
    return wait;
  }

  /// What `to` will start next of what it is sent in this direction.
  Action taker(const Action& output, StageId to) const {
    const std::int64_t count = started(to, output.phase);
    if (plan_.order_mode == OrderMode::fixed) {
      std::int64_t seen = 0;
      for (const Action& each : plan_.order[plan_.rank_of[to.index()].index()]) {
        if (each.stage == to && direction(each.phase) == direction(output.phase) &&
            seen++ == count) {
          return each;
        }
      }
    }
    return {to, output.phase, MicrobatchId(count)};
  }

  static int direction(Phase phase) {
    if (phase == Phase::weight_gradient) return 0;  // it goes nowhere
    return phase == Phase::forward ? 1 : -1;
  }

  /// How many actions of this direction `stage` has started.
  std::int64_t started(StageId stage, Phase phase) const {
    const RankId rank = plan_.rank_of[stage.index()];
    const RankPosition& at = positions_[rank.index()];
    if (plan_.order_mode == OrderMode::adaptive) {
      return phase == Phase::forward ? at.forwards : at.started - at.forwards;
    }
    const auto& order = plan_.order[rank.index()];
    return std::count_if(order.begin(), order.begin() + at.started, [&](const Action& each) {
      return each.stage == stage && direction(each.phase) == direction(phase);
    });
  }

  /// What the rank would run next: by its fixed order one action, by the law one of two.
  std::vector<Action> wants(const RankPosition& at) const {
    const auto& order = plan_.order[at.rank.index()];
    if (at.started == static_cast<std::int64_t>(order.size())) return {};
    if (plan_.order_mode == OrderMode::fixed) return {order[static_cast<std::size_t>(at.started)]};
    std::vector<Action> either;
    const StageId stage(at.rank.value);
    const std::int64_t backwards = at.started - at.forwards;
    const bool credit = at.forwards - backwards < plan_.credits[stage.index()];
    if (at.forwards < plan_.microbatches && credit) {
      either.emplace_back(stage, Phase::forward, MicrobatchId(at.forwards));
    }
    either.emplace_back(stage, Phase::backward, MicrobatchId(backwards));
    return either;
  }

  RankWait wait(const RankPosition& at, const Action& wanted) const {
    RankWait wait;
    wait.rank = at.rank;
    wait.wants = wanted;
    const auto cause = cause_of(plan_, wanted);
    if (!cause && wanted.mb.value >= entered_) {
      wait.why = "the batch source has not delivered that microbatch";
    } else if (const Crossing* crossing = crossing_to(wanted)) {
      wait.why = fmt::format("its input has left rank {} and {}",
                             plan_.rank_of[cause->stage.index()].value,
                             crossing->lost ? "was lost on the way" : "is on its way");
    } else if (!cause || ended(*cause)) {
      if (auto slot = full(at, wanted)) return *std::move(slot);
      wait.why = "its input is here: the policy waits";
    } else {
      const RankId holder = plan_.rank_of[cause->stage.index()];
      const RankPosition& other = positions_[holder.index()];
      wait.until = cause;
      wait.holder = holder;
      wait.why =
          fmt::format("rank {} {} {}", holder.value,
                      other.running && same(other.last, *cause) ? "is running" : "has not run",
                      to_string(*cause));
    }
    return wait;
  }

  const Crossing* crossing_to(const Action& wanted) const {
    const auto found =
        std::find_if(crossings_.begin(), crossings_.end(),
                     [&](const Crossing& each) { return same(each.action, wanted); });
    return found == crossings_.end() ? nullptr : &*found;
  }

  bool ended(const Action& action) const {
    const RankId rank = plan_.rank_of[action.stage.index()];
    const RankPosition& at = positions_[rank.index()];
    if (at.running && same(at.last, action)) return false;
    if (plan_.order_mode == OrderMode::adaptive) {
      const std::int64_t count =
          action.phase == Phase::forward ? at.forwards : at.started - at.forwards;
      return action.mb.value < count;
    }
    const auto& order = plan_.order[rank.index()];
    const auto end = order.begin() + at.started;
    return std::any_of(order.begin(), end, [&](const Action& each) { return same(each, action); });
  }

  /// Follows each rank to the one it waits for until a rank comes up again.
  std::vector<RankId> cycle(const std::vector<RankWait>& waits) const {
    const auto holder_of = [&waits](RankId rank) -> std::optional<RankId> {
      for (const RankWait& wait : waits) {
        if (wait.rank == rank && wait.holder) return wait.holder;
      }
      return std::nullopt;
    };
    for (const RankPosition& start : positions_) {
      std::vector<RankId> path;
      for (std::optional<RankId> at = start.rank; at; at = holder_of(*at)) {
        const auto seen = std::find(path.begin(), path.end(), *at);
        if (seen != path.end()) return {seen, path.end()};
        path.push_back(*at);
      }
    }
    return {};
  }

  const Plan& plan_;
  std::span<const RankPosition> positions_;
  int entered_;
  std::span<const Crossing> crossings_;
};

}  // namespace

WaitGraph wait_graph(const Plan& plan, std::span<const RankPosition> positions, int entered,
                     std::span<const Crossing> crossings) {
  return Drawing(plan, positions, entered, crossings).draw();
}

std::string to_string(const WaitGraph& graph) {
  std::string text;
  if (!graph.cycle.empty()) {
    text += "  cycle:";
    for (RankId rank : graph.cycle) text += fmt::format(" rank {} ->", rank.value);
    text += fmt::format(" rank {}\n", graph.cycle.front().value);
  }
  for (const RankPosition& at : graph.positions) {
    text +=
        fmt::format("  rank {}: {} actions run", at.rank.value, at.started - (at.running ? 1 : 0));
    if (at.running) text += fmt::format(", running {}", to_string(at.last));
    if (!at.running && at.started > 0) text += fmt::format(", the last {}", to_string(at.last));
    if (at.ended) text += ", ended";
    const char* joint = "; waits for ";
    for (const RankWait& wait : graph.waits) {
      if (wait.rank != at.rank) continue;
      text += fmt::format("{}{} ({})", joint, to_string(wait.wants), wait.why);
      joint = " or ";
    }
    text += '\n';
  }
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace sluice
