#include <sluice/replay/plan_model.hpp>

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace sluice::replay {
namespace {

/// What has happened to a microbatch on a stage. I counts as the backward: it is what others wait for.
enum Flag : std::uint8_t {
  forward_started = 1,
  forward_ended = 2,
  backward_started = 4,
  backward_ended = 8,
  weights_started = 16,  // and ended: the next bit, as above
};

std::uint8_t started_flag(Phase phase) {
  switch (phase) {
    case Phase::forward: return forward_started;
    case Phase::weight_gradient: return weights_started;
    default: return backward_started;
  }
}

std::uint8_t ended_flag(Phase phase) { return static_cast<std::uint8_t>(started_flag(phase) << 1); }

/// The ranks that wait for each other, from the first rank that leads to such a ring.
std::vector<RankId> cycle_of(std::span<const RankWait> waits, std::size_t ranks) {
  for (std::size_t start = 0; start < ranks; ++start) {
    std::vector<RankId> path;
    std::optional<RankId> at = RankId(static_cast<std::int64_t>(start));
    while (at) {
      const auto seen = std::find(path.begin(), path.end(), *at);
      if (seen != path.end()) return {seen, path.end()};
      path.push_back(*at);
      const auto wait = std::find_if(waits.begin(), waits.end(), [&](const RankWait& each) {
        return each.rank == *at && each.holder;
      });
      at = wait == waits.end() ? std::nullopt : wait->holder;
    }
  }
  return {};
}

}  // namespace

PlanModel::PlanModel(const Plan& plan, Policy* policy, bool by_law)
    : plan_(plan),
      policy_(policy),
      by_law_(by_law && !is_listed(plan.schedule) && plan.schedule != ScheduleName::custom),
      split_(plan),
      ranks_(static_cast<std::size_t>(plan.ranks)) {
  for (StageId stage(0); stage.value < plan.stages; stage = stage.next()) {
    Rank& rank = ranks_[plan.rank_of[stage.index()].index()];
    place_of_stage_.push_back(rank.stages.size());
    rank.stages.push_back(stage);
  }
  for (RankId id(0); id.value < plan.ranks; id = id.next()) {
    Rank& rank = ranks_[id.index()];
    rank.actions = plan.order[id.index()].size();
    auto local = std::make_unique<Local>();
    local->cells.assign(rank.stages.size() * static_cast<std::size_t>(plan.microbatches), 0);
    local->held.assign(rank.stages.size(), 0);
    local->position.rank = id;
    if (policy != nullptr) local->policy = policy->for_rank(plan, id);
    intern(rank, std::move(local), 0);
  }
}

std::optional<Event> PlanModel::next(std::span<const std::uint32_t> state, RankId rank) {
  const Local& at = local(state, rank);
  Event event;
  event.rank = rank;
  if (at.running) {
    event.kind = Event::Kind::exit;
    event.action = *at.running;
    return event;
  }
  options_.clear();
  for (const StageId stage : ranks_[rank.index()].stages) {
    for (const Phase phase :
         {Phase::forward, Phase::backward, Phase::input_gradient, Phase::weight_gradient}) {
      for (MicrobatchId mb(0); mb.value < plan_.microbatches; mb = mb.next()) {
        const Action action(stage, phase, mb);
        if (ready(state, action)) options_.push_back(Option{Option::Kind::run, action});
      }
    }
  }
  if (options_.empty()) return std::nullopt;
  const auto chosen = at.policy->choose(ReadyView(options_));
  if (!chosen) return std::nullopt;
  if (*chosen >= options_.size()) {
    throw std::out_of_range(fmt::format("rank {}: the policy chose option {} of {}", rank.value,
                                        *chosen, options_.size()));
  }
  event.kind = Event::Kind::enter;
  event.action = options_[*chosen].action;
  return event;
}

std::uint32_t PlanModel::after(std::span<const std::uint32_t> state, const Event& event) {
  Rank& rank = ranks_[event.rank.index()];
  const std::uint32_t before = state[event.rank.index()];
  Local& from = *rank.locals[before];
  for (const auto& [known, number] : from.further) {
    if (known.action == event.action && known.kind == event.kind) return number;
  }
  const bool enters = event.kind == Event::Kind::enter;
  auto local = std::make_unique<Local>();
  local->cells = from.cells;
  const std::size_t place =
      place_of_stage_[event.action.stage.index()] * static_cast<std::size_t>(plan_.microbatches) +
      event.action.mb.index();
  local->cells[place] |= enters ? started_flag(event.action.phase) : ended_flag(event.action.phase);
  local->held = from.held;
  int& held = local->held[place_of_stage_[event.action.stage.index()]];
  if (enters && event.action.phase == Phase::forward) ++held;
  if (!enters && releases(event.action.phase)) --held;
  if (enters) local->running = event.action;
  local->position = from.position;
  local->position.last = event.action;
  local->position.running = enters;
  if (enters) ++local->position.started;
  if (enters && event.action.phase == Phase::forward) ++local->position.forwards;
  local->position.ended =
      !enters && local->position.started == static_cast<std::int64_t>(rank.actions);
  local->before = before;
  local->event = event;
  if (policy_ != nullptr) {
    local->policy = policy_after(event.rank, before);
    local->policy->observe(event);
  }
  const std::uint32_t number = intern(rank, std::move(local), before);
  from.further.emplace_back(event, number);
  return number;
}

/// A policy is not copied: a new one is told what the rank has done. Once for each thing to have done.
std::unique_ptr<RankPolicy> PlanModel::policy_after(RankId rank, std::uint32_t history) {
  std::vector<const Event*> events;
  const auto& locals = ranks_[rank.index()].locals;
  for (std::uint32_t at = history; at != 0; at = locals[at]->before) {
    events.push_back(&locals[at]->event);
  }
  auto policy = policy_->for_rank(plan_, rank);
  std::reverse(events.begin(), events.end());
  for (const Event* event : events) policy->observe(*event);
  return policy;
}

std::uint32_t PlanModel::intern(Rank& rank, std::unique_ptr<Local> local, std::uint32_t before) {
  const auto number = static_cast<std::uint32_t>(rank.locals.size());
  std::string key(
      1, local->running ? static_cast<char>(1 + static_cast<int>(local->running->phase)) : '\0');
  const auto add = [&key](std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) key += static_cast<char>(value >> (8 * byte) & 255U);
  };
  const auto fingerprint =
      local->policy ? local->policy->fingerprint() : std::optional<std::uint64_t>(0);
  if (fingerprint) {
    add(*fingerprint);
    key.append(local->cells.begin(), local->cells.end());
  } else {
    // Nothing is known of what the policy remembers: no two histories are alike.
    visible_ = false;
    key = '\x7F';  // not a phase
    add(before);
    add(number);
  }
  const auto [known, added] = rank.numbers.emplace(std::move(key), number);
  if (added) {
    size_ += 2 * local->cells.size() + 400;
    rank.locals.push_back(std::move(local));
  }
  return known->second;
}

std::uint8_t PlanModel::cell(std::span<const std::uint32_t> state, StageId stage,
                             MicrobatchId mb) const {
  return local(state, plan_.rank_of[stage.index()])
      .cells[place_of_stage_[stage.index()] * static_cast<std::size_t>(plan_.microbatches) +
             mb.index()];
}

bool PlanModel::ready(std::span<const std::uint32_t> state, const Action& action) const {
  const std::uint8_t own = cell(state, action.stage, action.mb);
  if ((own & started_flag(action.phase)) != 0) return false;
  return has_input(state, action) && has_slot(state, action);
}

/// The door: stage 0's credit and one more are inside at once.
int PlanModel::admitted(std::span<const std::uint32_t> state) const {
  int retired = 0;
  for (MicrobatchId mb(0); mb.value < plan_.microbatches; mb = mb.next()) {
    const std::uint8_t released = ended_flag(releasing(StageId(0), mb));
    if ((cell(state, StageId(0), mb) & released) != 0) ++retired;
  }
  return std::min(plan_.microbatches, retired + plan_.credits.front() + 1);
}

bool PlanModel::has_input(std::span<const std::uint32_t> state, const Action& action) const {
  const std::uint8_t own = cell(state, action.stage, action.mb);
  if (action.phase == Phase::forward) {
    if (action.stage.value > 0) {
      return (cell(state, action.stage.previous(), action.mb) & forward_ended) != 0;
    }
    return action.mb.value < admitted(state);
  }
  const bool split = split_.is_split(action.stage, action.mb);
  if (split != (action.phase != Phase::backward)) return false;
  if (action.phase == Phase::weight_gradient) return (own & backward_ended) != 0;
  if (action.stage.value + 1 == plan_.stages) return (own & forward_ended) != 0;
  return (cell(state, action.stage.next(), action.mb) & backward_ended) != 0;
}

std::optional<StageId> PlanModel::receiver(const Action& action) const {
  std::optional<StageId> to;
  if (action.phase == Phase::forward && action.stage.value + 1 < plan_.stages) {
    to = action.stage.next();
  } else if ((action.phase == Phase::backward || action.phase == Phase::input_gradient) &&
             action.stage.value > 0) {
    to = action.stage.previous();
  }
  if (to && plan_.rank_of[to->index()] == plan_.rank_of[action.stage.index()]) return std::nullopt;
  return to;
}

/// Rendezvous: a rank stays with its outputs until each has been taken.
bool PlanModel::handed_over(std::span<const std::uint32_t> state, RankId rank) const {
  for (const StageId stage : ranks_[rank.index()].stages) {
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      const auto to = receiver(Action(stage, phase, MicrobatchId(0)));
      if (!to) continue;
      const std::uint8_t started = started_flag(phase);
      for (MicrobatchId mb(0); mb.value < plan_.microbatches; mb = mb.next()) {
        if ((cell(state, stage, mb) & ~cell(state, *to, mb) & started) != 0) return false;
      }
    }
  }
  return true;
}

bool PlanModel::has_slot(std::span<const std::uint32_t> state, const Action& action) const {
  if (!plan_.slots) return true;
  if (*plan_.slots == 0) return handed_over(state, plan_.rank_of[action.stage.index()]);
  const auto to = receiver(action);
  if (!to) return true;
  // An output has its slot from the start of its action until the receiving one starts.
  const std::uint8_t started = started_flag(action.phase);
  int taken = 0;
  for (MicrobatchId mb(0); mb.value < plan_.microbatches; mb = mb.next()) {
    if ((cell(state, action.stage, mb) & ~cell(state, *to, mb) & started) != 0) ++taken;
  }
  return taken < *plan_.slots;
}

bool PlanModel::finished(std::span<const std::uint32_t> state) const {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const Local& at = *ranks_[r].locals[state[r]];
    if (at.running || at.position.started != static_cast<std::int64_t>(ranks_[r].actions)) {
      return false;
    }
  }
  return true;
}

std::string PlanModel::violation(std::span<const std::uint32_t> state, const Event& event) const {
  const Local& at = local(state, event.rank);
  if (event.kind == Event::Kind::enter) {
    if (at.running) {
      return fmt::format("rank-overlap: {} starts inside {}", to_string(event.action),
                         to_string(*at.running));
    }
    return wrong_enter(state, event.action);
  }
  if (at.running == event.action) return "";
  return fmt::format("exit-without-enter: {} ends and was not running", to_string(event.action));
}

std::string PlanModel::wrong_enter(std::span<const std::uint32_t> state,
                                   const Action& action) const {
  const std::uint8_t own = cell(state, action.stage, action.mb);
  if ((own & started_flag(action.phase)) != 0) {
    return fmt::format("mb-repeated: {} starts again", to_string(action));
  }
  if (!has_input(state, action)) {
    return fmt::format("no-input: {} starts before its input is there", to_string(action));
  }
  if (!has_slot(state, action)) {
    return fmt::format("no-slot: {} starts without a slot for its output", to_string(action));
  }
  const int holds =
      local(state, plan_.rank_of[action.stage.index()]).held[place_of_stage_[action.stage.index()]];
  if (action.phase == Phase::forward && holds >= plan_.credits[action.stage.index()]) {
    return fmt::format("over-credit: {} starts while stage {} holds {}, its credit is {}",
                       to_string(action), action.stage.value, holds,
                       plan_.credits[action.stage.index()]);
  }
  if (!by_law_) return "";
  if (action.mb.value > 0) {
    const std::uint8_t before = cell(state, action.stage, action.mb.previous());
    if ((before & started_flag(action.phase)) == 0) {
      return fmt::format("mb-order: {} starts before {}{}{}", to_string(action), action.stage.value,
                         letter(action.phase), action.mb.value - 1);
    }
  } else if (action.phase == Phase::backward && action.stage.value + 1 == plan_.stages &&
             holds < plan_.gate) {
    return fmt::format("gate-early: {} starts while stage {} holds {}, its gate is {}",
                       to_string(action), action.stage.value, holds, plan_.gate);
  }
  return "";
}

Phase PlanModel::releasing(StageId stage, MicrobatchId mb) const {
  return split_.is_split(stage, mb) ? Phase::weight_gradient : Phase::backward;
}

WaitGraph PlanModel::waits(std::span<const std::uint32_t> state) const {
  std::vector<RankPosition> positions;
  positions.reserve(ranks_.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    positions.push_back(ranks_[r].locals[state[r]]->position);
  }
  WaitGraph graph = wait_graph(plan_, positions, admitted(state));
  for (RankWait& wait : graph.waits) {
    if (plan_.slots == 0) break;  // what a rank stays with is in the graph already
    if (!has_input(state, wait.wants) || has_slot(state, wait.wants)) continue;
    const StageId to = *receiver(wait.wants);
    const std::uint8_t started = started_flag(wait.wants.phase);
    MicrobatchId mb(0);
    while ((cell(state, wait.wants.stage, mb) & ~cell(state, to, mb) & started) == 0) {
      mb = mb.next();
    }
    wait.until = Action(to, wait.wants.phase, mb);
    wait.holder = plan_.rank_of[to.index()];
    wait.why = fmt::format("no free slot to stage {} until rank {} starts {}", to.value,
                           wait.holder->value, to_string(*wait.until));
  }
  graph.cycle = cycle_of(graph.waits, ranks_.size());
  return graph;
}

}  // namespace sluice::replay
