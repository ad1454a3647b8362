#include <sluice/critical_path.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice {
namespace {

using Position = std::int32_t;  // no plan with its actions has more
constexpr Position nowhere = -1;

/// Walks a timeline backwards in time.
class Walker {
 public:
  explicit Walker(const Plan& plan) : plan_(plan), actions_(plan.timeline.actions) {
    const auto mbs = static_cast<std::size_t>(plan.microbatches);
    for (auto& of_phase : at_) of_phase.assign(plan.rank_of.size() * mbs, nowhere);
    std::vector<Position> latest(static_cast<std::size_t>(plan.ranks), nowhere);
    std::vector<std::size_t> done(static_cast<std::size_t>(plan.ranks), 0);
    before_.reserve(actions_.size());
    partner_.assign(actions_.size(), nowhere);
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      const TimedAction& timed = actions_[i];
      slot_of(timed.action) = static_cast<Position>(i);
      Position& last = latest[timed.rank.index()];
      before_.push_back(last);
      const std::size_t k = done[timed.rank.index()]++;
      if (k > 0 && overlaps(timed.rank, k - 1)) {
        partner_[i] = last;
        partner_[static_cast<std::size_t>(last)] = static_cast<Position>(i);
      }
      last = static_cast<Position>(i);
    }
  }

  Position last() const {
    const auto later = [](const TimedAction& a, const TimedAction& b) { return a.end < b.end; };
    return static_cast<Position>(std::max_element(actions_.begin(), actions_.end(), later) -
                                 actions_.begin());
  }

  /// What let the action at `position` start, and whether it ran before it (or freed a slot for it by
  /// starting at the same moment); nothing for what nothing held back.
  Position cause_of(Position position, bool& ran) const {
    const TimedAction& timed = actions_[static_cast<std::size_t>(position)];
    ran = true;
    const Position partner = partner_[static_cast<std::size_t>(position)];
    Position on_rank = before_[static_cast<std::size_t>(position)];
    if (on_rank != nowhere && on_rank == partner) {
      on_rank = before_[static_cast<std::size_t>(partner)];
    }
    if (on_rank != nowhere && at(on_rank).end == timed.start) return on_rank;
    for (const Position each : {position, partner}) {
      if (each == nowhere) continue;
      const Position input = input_of(at(each).action);
      if (input != nowhere && at(input).end + latency(at(input), at(each)) == timed.start)
        return input;
    }
    ran = false;
    return taker_at(timed);
  }

  const TimedAction& at(Position position) const {
    return actions_[static_cast<std::size_t>(position)];
  }

 private:
  bool overlaps(RankId rank, std::size_t k) const {
    if (plan_.overlapped.empty()) return false;
    const auto& pairs = plan_.overlapped[rank.index()];
    return std::binary_search(pairs.begin(), pairs.end(), k);
  }
  std::size_t cell(const Action& action) const {
    return action.stage.index() * static_cast<std::size_t>(plan_.microbatches) + action.mb.index();
  }
  Position& slot_of(const Action& action) {
    return at_[static_cast<std::size_t>(action.phase)][cell(action)];
  }
  Position find(StageId stage, Phase phase, MicrobatchId mb) const {
    return at_[static_cast<std::size_t>(phase)][cell(Action(stage, phase, mb))];
  }
  Position gradient(StageId stage, MicrobatchId mb) const {
    const Position whole = find(stage, Phase::backward, mb);
    return whole != nowhere ? whole : find(stage, Phase::input_gradient, mb);
  }

  /// Whose output `action` takes.
  Position input_of(const Action& action) const {
    switch (action.phase) {
      case Phase::forward:
        return action.stage.value == 0 ? nowhere
                                       : find(action.stage.previous(), Phase::forward, action.mb);
      case Phase::weight_gradient: return find(action.stage, Phase::input_gradient, action.mb);
      default:
        return action.stage.value + 1 == plan_.stages
                   ? find(action.stage, Phase::forward, action.mb)
                   : gradient(action.stage.next(), action.mb);
    }
  }

  Time latency(const TimedAction& from, const TimedAction& to) const {
    if (from.rank == to.rank) return {};
    return plan_.costs.link[std::min(from.action.stage, to.action.stage).index()];
  }

  /// With slots: what started at the same moment on a neighbour, and so let the rank go on.
  Position taker_at(const TimedAction& timed) const {
    if (!plan_.slots) return nowhere;
    const auto earlier = [](const TimedAction& a, const TimedAction& b) {
      return a.start < b.start;
    };
    const auto [from, to] = std::equal_range(actions_.begin(), actions_.end(), timed, earlier);
    for (auto each = from; each != to; ++each) {
      const Position input = input_of(each->action);
      if (input != nowhere && each->rank != timed.rank && at(input).rank == timed.rank) {
        return static_cast<Position>(each - actions_.begin());
      }
    }
    return nowhere;
  }

  const Plan& plan_;
  const std::vector<TimedAction>& actions_;
  std::array<std::vector<Position>, 4> at_;  // by phase, then stage and microbatch
  std::vector<Position> before_;             // the position of what its rank ran before
  std::vector<Position> partner_;            // of what overlaps with it
};

}  // namespace

CriticalPath critical_path(const Plan& plan) {
  const Walker walker(plan);
  CriticalPath path;
  path.of_stage.resize(plan.rank_of.size());
  path.between = plan.timeline.makespan;
  Position position = walker.last();
  bool ran = true;
  // A chain visits no action twice; the bound is for slots freed in a circle at one moment.
  for (std::size_t step = 0; position != nowhere && step < plan.timeline.actions.size(); ++step) {
    const TimedAction& timed = walker.at(position);
    if (ran) {
      path.actions.push_back(timed);
      path.of_stage[timed.action.stage.index()] += timed.end - timed.start;
      path.between = path.between - (timed.end - timed.start);
    }
    position = walker.cause_of(position, ran);
  }
  std::reverse(path.actions.begin(), path.actions.end());
  const auto most = std::max_element(path.of_stage.begin(), path.of_stage.end());
  path.bottleneck = StageId(most - path.of_stage.begin());
  return path;
}

Time gain_of_one_percent(const Plan& plan, StageId stage) {
  Costs costs = plan.costs;
  for (auto* list :
       {&costs.forward, &costs.backward, &costs.input_gradient, &costs.weight_gradient}) {
    Time& cost = (*list)[stage.index()];
    cost = Time::from_units(0.99 * cost.units());
  }
  SimulationOptions options;
  options.detail = Detail::metrics;
  options.slots = plan.slots;
  if (plan.order_mode == OrderMode::adaptive) {
    return plan.timeline.makespan -
           simulate_law(plan.stages, plan.microbatches, plan.credits, costs, options).makespan;
  }
  const Schedule schedule{plan.order, plan.rank_of, plan.overlapped};
  return plan.timeline.makespan -
         simulate_order(schedule, plan.microbatches, costs, options).makespan;
}

}  // namespace sluice
