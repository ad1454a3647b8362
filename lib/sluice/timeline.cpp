#include <sluice/timeline.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sluice/engine.hpp>
#include <sluice/law.hpp>
#include <sluice/law_sweep.hpp>
#include <sluice/order_decider.hpp>
#include <sluice/order_list.hpp>
#include <sluice/order_sweep.hpp>
#include <sluice/wave.hpp>

namespace sluice {
namespace {

/// Every stage follows the law; one stage a rank, so a rank's number is its stage's.
class LawDecider {
 public:
  LawDecider(std::span<const int> credits, int microbatches) : microbatches_(microbatches) {
    for (std::size_t s = 0; s < credits.size(); ++s) {
      const bool last = s + 1 == credits.size();
      stages_.push_back({law::LawStage(credits[s], last ? law::gate(microbatches, credits) : 0)});
    }
  }

  std::optional<Action> next(RankId rank, const detail::Board& board) const {
    const PerStage& stage = stages_[rank.index()];
    const Action forward = stage.forward(rank);
    const Action backward = stage.backward(rank);
    law::Offer offer;
    offer.forward =
        stage.next_forward < microbatches_ && board.has_input(forward) && board.has_slot(forward);
    offer.backward = stage.next_backward < microbatches_ && board.has_input(backward) &&
                     board.has_slot(backward);
    const auto phase = stage.law.next(offer);
    if (!phase) return std::nullopt;
    return *phase == Phase::forward ? forward : backward;
  }

  std::optional<Action> wanted(RankId rank) const {
    const PerStage& stage = stages_[rank.index()];
    law::Offer everything;
    everything.forward = stage.next_forward < microbatches_;
    everything.backward = true;
    if (stage.next_backward == microbatches_) return std::nullopt;
    return stage.law.next(everything) == Phase::forward ? stage.forward(rank)
                                                        : stage.backward(rank);
  }

  static std::optional<Action> partner(RankId) { return std::nullopt; }

  void started(RankId rank, const Action& action) {
    PerStage& stage = stages_[rank.index()];
    if (action.phase == Phase::forward) {
      stage.law.forward_started();
      ++stage.next_forward;
    } else {
      ++stage.next_backward;
    }
  }

  void ended(const Action& action) {
    if (releases(action.phase)) stages_[action.stage.index()].law.released();
  }

 private:
  struct PerStage {
    law::LawStage law;
    // Both phases go in ascending microbatch order.
    int next_forward = 0;
    int next_backward = 0;

    Action forward(RankId rank) const {
      return Action(StageId(rank.value), Phase::forward, MicrobatchId(next_forward));
    }
    Action backward(RankId rank) const {
      return Action(StageId(rank.value), Phase::backward, MicrobatchId(next_backward));
    }
  };

  int microbatches_;
  std::vector<PerStage> stages_;
};

void check_ids(const Schedule& schedule, int microbatches) {
  const auto& rank_of = schedule.rank_of;
  for (std::size_t r = 0; r < schedule.order.size(); ++r) {
    for (const Action& action : schedule.order[r]) {
      const bool fits = action.stage.value >= 0 && action.stage.index() < rank_of.size() &&
                        action.mb.value >= 0 && action.mb.value < microbatches;
      if (fits && rank_of[action.stage.index()].index() == r) continue;
      throw std::invalid_argument(fmt::format(
          "order of rank {}: {} is not one of its actions (stages 0..{}, microbatches 0..{})", r,
          to_string(action), rank_of.size() - 1, microbatches - 1));
    }
  }
  for (const RankId rank : rank_of) {
    if (rank.value >= 0 && rank.index() < schedule.order.size()) continue;
    throw std::invalid_argument(fmt::format("a stage is on rank {}, and the order has {} ranks",
                                            rank.value, schedule.order.size()));
  }
}

std::vector<Time> spread(const std::vector<Time>& given, std::vector<Time> by_default,
                         const char* key) {
  if (given.empty()) return by_default;
  if (given.size() == 1) return std::vector<Time>(by_default.size(), given.front());
  if (given.size() == by_default.size()) return given;
  throw std::invalid_argument(fmt::format("costs: {} has {} entries, expected 1 or {}", key,
                                          given.size(), by_default.size()));
}

/// Whether no action of any phase is over as soon as it starts: of those at one moment the engine alone
/// tells which came first.
bool every_phase_takes_time(const Costs& costs) {
  const auto some = [](Time time) { return time > Time(); };
  return costs.overhead > Time() ||
         (detail::takes_time(costs) &&
          std::all_of(costs.input_gradient.begin(), costs.input_gradient.end(), some) &&
          std::all_of(costs.weight_gradient.begin(), costs.weight_gradient.end(), some));
}

/// When the actions of `list` run. `costs` are complete.
template <class List>
Timeline run_list(std::span<const RankId> rank_of, int ranks, List list, int microbatches,
                  const Costs& costs, const SimulationOptions& options) {
  if (every_phase_takes_time(costs)) {
    detail::OrderSweep sweep(rank_of, ranks, list, microbatches, costs, options);
    if (sweep.run()) return sweep.timeline();
    // It is stuck, and the engine says who waits for whom; or it runs an action twice.
  }
  std::size_t actions = 0;
  for (int r = 0; r < ranks; ++r) actions += list.count(RankId(r));
  detail::OrderDecider decider(ranks, list);
  detail::Engine engine(decider, rank_of, ranks, microbatches, costs, options);
  return engine.run(actions);
}

std::string what_of(const std::vector<Wait>& waits, bool cyclic) {
  std::string text = "stuck: ";
  for (const Wait& wait : waits) {
    if (&wait != &waits.front()) text += "; ";
    text += to_string(wait);
  }
  text += cyclic ? " (a cycle)" : "; that rank has nothing left to run";
  return text;
}

}  // namespace

Costs complete(const Costs& costs, int stages) {
  const auto count = static_cast<std::size_t>(stages);
  const std::vector<Time> ones(count, Time::from_units(1));
  Costs result;
  result.forward = spread(costs.forward, ones, "forward");
  result.backward = spread(costs.backward, ones, "backward");
  std::vector<Time> half(count);
  std::vector<Time> rest(count);
  for (std::size_t s = 0; s < count; ++s) {
    half[s] = Time::from_millionths(result.backward[s].millionths / 2);
    rest[s] = result.backward[s] - half[s];
  }
  result.input_gradient = spread(costs.input_gradient, std::move(half), "input_gradient");
  result.weight_gradient = spread(costs.weight_gradient, std::move(rest), "weight_gradient");
  result.link = spread(costs.link, std::vector<Time>(count - 1), "link");
  result.overhead = costs.overhead;
  result.sizes = costs.sizes;
  return result;
}

std::string to_string(const Wait& wait) {
  const std::string action = to_string(wait.action);
  const std::string until = to_string(wait.until);
  if (wait.what == Wait::For::slot) {
    return fmt::format("rank {} cannot start {}: no free slot to stage {} until rank {} starts {}",
                       wait.rank.value, action, wait.until.stage.value, wait.other.value, until);
  }
  if (wait.what == Wait::For::handover) {
    return fmt::format("rank {} cannot hand over {} until rank {} starts {}", wait.rank.value,
                       action, wait.other.value, until);
  }
  return fmt::format("rank {} cannot start {} until rank {} has run {}", wait.rank.value, action,
                     wait.other.value, until);
}

StuckError::StuckError(std::vector<Wait> waits, bool cyclic)
    : std::runtime_error(what_of(waits, cyclic)), waits_(std::move(waits)), cyclic_(cyclic) {}

Timeline simulate_law(int stages, int microbatches, std::span<const int> credits,
                      const Costs& costs, const SimulationOptions& options) {
  const Costs completed = complete(costs, stages);
  if (!options.slots && detail::takes_time(completed)) {
    return detail::law_sweep(microbatches, credits, completed, options.detail);
  }
  const auto ranks = one_stage_a_rank(stages);
  LawDecider decider(credits, microbatches);
  detail::Engine engine(decider, ranks, stages, microbatches, completed, options);
  return engine.run(2 * static_cast<std::size_t>(stages) * static_cast<std::size_t>(microbatches));
}

Timeline simulate_order(const Schedule& schedule, int microbatches, const Costs& costs,
                        const SimulationOptions& options) {
  check_ids(schedule, microbatches);
  const Costs completed = complete(costs, static_cast<int>(schedule.rank_of.size()));
  return run_list(schedule.rank_of, static_cast<int>(schedule.order.size()),
                  detail::ScheduleList{&schedule.order, &schedule.overlapped}, microbatches,
                  completed, options);
}

bool can_finish(const Schedule& schedule, int microbatches, int slots) {
  check_ids(schedule, microbatches);
  const Costs costs = complete({}, static_cast<int>(schedule.rank_of.size()));
  SimulationOptions options;
  options.detail = Detail::metrics;
  options.slots = slots;
  detail::OrderSweep sweep(schedule.rank_of, static_cast<int>(schedule.order.size()),
                           detail::ScheduleList{&schedule.order, &schedule.overlapped},
                           microbatches, costs, options);
  return sweep.run();
}

Timeline simulate_static(int stages, int microbatches, int drain_depth, const Costs& costs,
                         const SimulationOptions& options) {
  const Costs completed = complete(costs, stages);
  const bool metrics = options.detail == Detail::metrics;
  if (!options.slots && (metrics || detail::takes_time(completed))) {
    return detail::wave(stages, microbatches, drain_depth, completed, options.detail);
  }
  return run_list(one_stage_a_rank(stages), stages, detail::StaticList{microbatches, drain_depth},
                  microbatches, completed, options);
}

Order order_of(const Timeline& timeline) {
  Order order(timeline.ranks.size());
  for (auto& of_rank : order) of_rank.reserve(timeline.actions.size() / order.size());
  for (const TimedAction& timed : timeline.actions) {
    order[timed.rank.index()].push_back(timed.action);
  }
  return order;
}

}  // namespace sluice
