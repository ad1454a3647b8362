// Every listed schedule, at any shape it exists for, is a whole step that can finish, under any costs
// and with as many slots as the plan says.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sluice/critical_path.hpp>
#include <sluice/engine.hpp>
#include <sluice/fuzz/invariants.hpp>
#include <sluice/fuzz/property.hpp>
#include <sluice/fuzz/shapes.hpp>
#include <sluice/order_decider.hpp>
#include <sluice/order_list.hpp>
#include <sluice/plan.hpp>
#include <sluice/queue_marks.hpp>
#include <sluice/schedule.hpp>
#include <sluice/schedule_check.hpp>
#include <sluice/timeline.hpp>

namespace sluice {
namespace {

struct Listed {
  ScheduleName name = ScheduleName::interleaved;
  int stages = 1;
  int microbatches = 1;
  int chunks = 1;
};

std::ostream& operator<<(std::ostream& out, const Listed& listed) {
  return out << "--schedule " << to_string(listed.name) << " -S " << listed.stages << " -M "
             << listed.microbatches << " --chunks " << listed.chunks;
}

rc::Gen<Listed> gen_listed() {
  return rc::gen::exec([] {
    Listed listed;
    listed.name =
        *rc::gen::element(ScheduleName::interleaved, ScheduleName::looped_bfs, ScheduleName::zb_h1,
                          ScheduleName::zb_h2, ScheduleName::zb_v, ScheduleName::dualpipe_v);
    listed.chunks = default_chunks(listed.name);
    const bool looped = listed.name == ScheduleName::interleaved ||
                        listed.name == ScheduleName::looped_bfs ||
                        listed.name == ScheduleName::zb_h1;
    if (looped) listed.chunks = *rc::gen::inRange(1, 5);
    listed.stages = listed.chunks * *rc::gen::inRange(1, 6);
    listed.microbatches = *rc::gen::inRange(1, 20);
    if (listed.name == ScheduleName::dualpipe_v) listed.microbatches += listed.stages - 1;
    return listed;
  });
}

PlanConfig config_of(const Listed& listed) {
  PlanConfig config;
  config.stages = listed.stages;
  config.microbatches = listed.microbatches;
  config.schedule = listed.name;
  config.chunks = listed.chunks;
  return config;
}

SLUICE_PROPERTY(Listed, IsAWholeStepThatCanFinish) {
  const auto listed = *gen_listed();
  RC_ASSERT(shape_error(listed.name, listed.stages, listed.microbatches, listed.chunks) == "");
  const auto error = check_schedule(
      listed_schedule(listed.name, listed.stages, listed.microbatches, listed.chunks),
      listed.microbatches);
  if (error) RC_FAIL(error->found + ": " + error->expected);
}

SLUICE_PROPERTY(Listed, RunsCausallyUnderAnyCosts) {
  const auto listed = *gen_listed();
  PlanConfig config = config_of(listed);
  config.costs.forward = {*fuzz::gen_time(Time())};
  config.costs.backward = {*fuzz::gen_time(Time())};
  const Time link = *fuzz::gen_time(Time());
  config.costs.link = {link};
  const Plan plan = derive_plan(config);
  const auto& actions = plan.timeline.actions;
  RC_ASSERT(fuzz::complete(actions, listed.stages, listed.microbatches) == "");
  RC_ASSERT(fuzz::causal(actions, listed.stages, listed.microbatches, plan.costs.link) == "");
  if (listed.name != ScheduleName::dualpipe_v) {
    RC_ASSERT(fuzz::one_at_a_time(actions, plan.ranks) == "");
  }
}

SLUICE_PROPERTY(Listed, SafeSlotsAreEnoughAndNoneFewerAre) {
  const auto listed = *gen_listed();
  PlanConfig config = config_of(listed);
  const Plan plan = derive_plan(config);
  config.slots = plan.slots_safe;
  RC_ASSERT(derive_plan(config).order == plan.order);
  if (*plan.slots_safe > 0) {
    config.slots = *plan.slots_safe - 1;
    RC_ASSERT_THROWS_AS(derive_plan(config), ConfigError);
  }
  config.slots = plan.slots_never_blocking;
  RC_ASSERT(derive_plan(config).timeline.makespan == plan.timeline.makespan);
}

/// Costs that differ from stage to stage; links when asked for.
Costs gen_costs(int stages, bool links) {
  Costs costs;
  for (int s = 0; s < stages; ++s) {
    costs.forward.push_back(*fuzz::gen_time(Time()));
    costs.backward.push_back(*fuzz::gen_time(Time()));
    if (s > 0) costs.link.push_back(links ? *fuzz::gen_time(Time()) : Time());
  }
  return costs;
}

SLUICE_PROPERTY(Listed, TheCriticalPathIsAChainFromTheFirstStartToTheLastEnd) {
  const auto listed = *gen_listed();
  const bool links = *rc::gen::arbitrary<bool>();
  PlanConfig config = config_of(listed);
  config.costs = gen_costs(listed.stages, links);
  const Plan plan = derive_plan(config);
  const CriticalPath path = critical_path(plan);
  RC_ASSERT(path.actions.front().start == Time());
  RC_ASSERT(path.actions.back().end == plan.timeline.makespan);
  // Two that overlap share their time, and only one of them is on the path.
  Time gaps;
  for (std::size_t i = 1; i < path.actions.size(); ++i) {
    RC_ASSERT(path.actions[i].start >= path.actions[i - 1].end);
    gaps += path.actions[i].start - path.actions[i - 1].end;
  }
  RC_ASSERT(gaps == path.between);
  if (!links) RC_ASSERT(gaps == Time());
}

SLUICE_PROPERTY(Listed, OneSlotMoreThanEverWaitsChangesNothing) {
  const auto listed = *gen_listed();
  PlanConfig config = config_of(listed);
  config.costs = gen_costs(listed.stages, true);
  const Plan plan = derive_plan(config);
  const QueueMarks marks = queue_marks(plan);
  SimulationOptions options;
  options.slots = 1;
  for (const auto& direction : {marks.down, marks.up}) {
    for (const int most : direction) options.slots = std::max(*options.slots, most + 1);
  }
  const Schedule schedule{plan.order, plan.rank_of, plan.overlapped};
  const Timeline limited = simulate_order(schedule, listed.microbatches, plan.costs, options);
  RC_ASSERT(limited.makespan == plan.timeline.makespan);
}

/// One action swapped with another of its rank, dropped, repeated, or moved to anywhere.
void mutate(Schedule& schedule) {
  const auto position = [](const std::vector<Action>& order, std::size_t more) {
    return static_cast<std::ptrdiff_t>(*rc::gen::inRange<std::size_t>(0, order.size() + more));
  };
  auto& order = schedule.order[*rc::gen::inRange<std::size_t>(0, schedule.order.size())];
  auto& other = schedule.order[*rc::gen::inRange<std::size_t>(0, schedule.order.size())];
  const auto at = order.begin() + position(order, 0);
  const Action action = *at;
  switch (*rc::gen::inRange(0, 4)) {
    case 0: std::iter_swap(at, order.begin() + position(order, 0)); break;
    case 1: order.erase(at); break;
    case 2: other.insert(other.begin() + position(other, 1), action); break;
    default:
      order.erase(at);
      other.insert(other.begin() + position(other, 1), action);
      break;
  }
}

/// Everything that a timeline says, or who waits for whom.
std::string story_of(const Timeline& timeline) {
  std::string text = fmt::format("{} {}", timeline.makespan.millionths, timeline.work.millionths);
  for (const TimedAction& timed : timeline.actions) {
    text += fmt::format("\n{} rank {} {}..{}", to_string(timed.action), timed.rank.value,
                        timed.start.millionths, timed.end.millionths);
  }
  for (const RankSpan& rank : timeline.ranks) {
    text += fmt::format("\nrank {}..{} busy {}", rank.first_start.millionths,
                        rank.last_end.millionths, rank.busy.millionths);
  }
  return text + fmt::format("\nheld {}, entered {}", fmt::join(timeline.peak_held, ","),
                            timeline.entered_at_first_backward);
}

std::string by_events(const Schedule& schedule, int microbatches, const Costs& given,
                      const SimulationOptions& options) {
  const auto ranks = static_cast<int>(schedule.order.size());
  const Costs costs = complete(given, static_cast<int>(schedule.rank_of.size()));
  detail::OrderDecider decider(ranks, detail::ScheduleList{&schedule.order, &schedule.overlapped});
  detail::Engine engine(decider, schedule.rank_of, ranks, microbatches, costs, options);
  std::size_t actions = 0;
  for (const auto& of_rank : schedule.order) actions += of_rank.size();
  try {
    return story_of(engine.run(actions));
  } catch (const StuckError& stuck) {
    return stuck.what();
  }
}

std::string by_sweep(const Schedule& schedule, int microbatches, const Costs& costs,
                     const SimulationOptions& options) {
  try {
    return story_of(simulate_order(schedule, microbatches, costs, options));
  } catch (const StuckError& stuck) {
    return stuck.what();
  }
}

SLUICE_PROPERTY(Listed, TheSweepSaysWhatTheEngineSays) {
  const auto listed = *gen_listed();
  Schedule schedule =
      listed_schedule(listed.name, listed.stages, listed.microbatches, listed.chunks);
  const bool mutated = *rc::gen::arbitrary<bool>();
  if (mutated) {
    schedule.overlapped.clear();
    mutate(schedule);
    // An action of another rank's is refused before anything runs.
    for (std::size_t r = 0; r < schedule.order.size(); ++r) {
      for (const Action& action : schedule.order[r]) {
        RC_PRE(schedule.rank_of[action.stage.index()].index() == r);
      }
    }
  }
  Costs costs = gen_costs(listed.stages, *rc::gen::arbitrary<bool>());
  costs.overhead = *fuzz::gen_time(Time::from_millionths(1));
  if (*rc::gen::arbitrary<bool>()) {
    costs.sizes = *rc::gen::container<std::vector<std::int64_t>>(
        static_cast<std::size_t>(listed.microbatches), rc::gen::inRange<std::int64_t>(1, 5));
  }
  SimulationOptions options;
  options.slots = *rc::gen::element<std::optional<int>>(std::nullopt, 0, 1, 2, 5);
  RC_TAG(options.slots ? "slots" : "no slots", mutated ? "mutated" : "whole");
  for (const Detail detail : {Detail::actions, Detail::metrics}) {
    options.detail = detail;
    RC_ASSERT(by_sweep(schedule, listed.microbatches, costs, options) ==
              by_events(schedule, listed.microbatches, costs, options));
  }
  if (options.slots && !check_schedule(schedule, listed.microbatches)) {
    RC_ASSERT(can_finish(schedule, listed.microbatches, *options.slots) ==
              !by_events(schedule, listed.microbatches, costs, options).starts_with("stuck"));
  }
}

SLUICE_PROPERTY(Static, TheFormulaForSafeSlotsIsWhatTheEngineFinds) {
  PlanConfig config;
  config.stages = *rc::gen::inRange(1, 7);
  config.microbatches = *rc::gen::inRange(1, 12);
  config.schedule = *rc::gen::element(ScheduleName::one_f_one_b, ScheduleName::gpipe);
  const Plan plan = derive_plan(config);
  for (const int slots : {0, 1}) {
    SimulationOptions options;
    options.slots = slots;
    const Schedule schedule{plan.order, plan.rank_of, {}};
    bool runs = true;
    try {
      simulate_order(schedule, config.microbatches, {}, options);
    } catch (const StuckError&) {
      runs = false;
    }
    RC_ASSERT(runs == (slots >= *plan.slots_safe));
  }
}

SLUICE_PROPERTY(Listed, AnyDamageIsFound) {
  const auto listed = *gen_listed();
  Schedule schedule =
      listed_schedule(listed.name, listed.stages, listed.microbatches, listed.chunks);
  schedule.overlapped.clear();
  auto& order = schedule.order[*rc::gen::inRange<std::size_t>(0, schedule.order.size())];
  const auto at = *rc::gen::inRange<std::size_t>(0, order.size());
  switch (*rc::gen::inRange(0, 3)) {
    case 0: order.erase(order.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1: order.push_back(order[at]); break;
    default: order[at].mb = MicrobatchId(listed.microbatches); break;
  }
  RC_ASSERT(check_schedule(schedule, listed.microbatches).has_value());
}

void assert_mutation_is_refused_or_whole(Schedule schedule, int stages, int microbatches) {
  mutate(schedule);
  const bool refused = check_schedule(schedule, microbatches).has_value();
  RC_TAG(refused ? "refused" : "still valid");
  if (refused) return;
  const Costs costs = gen_costs(stages, true);
  const auto actions = simulate_order(schedule, microbatches, costs).actions;
  RC_ASSERT(fuzz::complete(actions, stages, microbatches) == "");
  RC_ASSERT(fuzz::causal(actions, stages, microbatches, costs.link) == "");
}

SLUICE_PROPERTY(Listed, AMutationIsRefusedOrStillAWholeStep) {
  const auto listed = *gen_listed();
  Schedule schedule =
      listed_schedule(listed.name, listed.stages, listed.microbatches, listed.chunks);
  schedule.overlapped.clear();
  assert_mutation_is_refused_or_whole(std::move(schedule), listed.stages, listed.microbatches);
}

SLUICE_PROPERTY(AnyCredits, AMutationOfTheLawsOrderIsRefusedOrStillAWholeStep) {
  const auto uneven = *fuzz::gen_uneven();
  const Timeline timeline =
      simulate_law(uneven.stages, uneven.microbatches, uneven.credits, uneven.costs);
  assert_mutation_is_refused_or_whole({order_of(timeline), one_stage_a_rank(uneven.stages), {}},
                                      uneven.stages, uneven.microbatches);
}

}  // namespace
}  // namespace sluice
