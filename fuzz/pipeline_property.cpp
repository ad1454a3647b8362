// The runtime against the law: whatever the shape, the order (the user's own, too), the slots, the threads, the
// suspensions and the failures, every action runs exactly once and in legal order, within credits and slots,
// with the bits of the plain loop; or the step ends with the one error, and nothing is applied.
//
// More cases: RC_PARAMS="max_success=100000" ./pipeline_property
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sluice/fuzz/holds.hpp>
#include <sluice/fuzz/property.hpp>
#include <sluice/in_order.hpp>
#include <sluice/random.hpp>
#include <sluice/schedule_csv.hpp>

#include "toy_run.hpp"

namespace sluice {
namespace {

/// What goes wrong in the first of two steps.
enum class Failure : std::uint8_t {
  none,
  action,  ///< a stage function throws
  update,  ///< a stage cannot prepare its update
  source,  ///< the batch ends early
  cancel,  ///< the host ends the step, in the middle of an action
};

std::string_view to_string(Failure failure) {
  switch (failure) {
    case Failure::none: return "none";
    case Failure::action: return "action";
    case Failure::update: return "update";
    case Failure::source: return "source";
    case Failure::cancel: return "cancel";
  }
  return "";
}

/// One case: everything that the runtime's behaviour may depend on.
struct Case {
  PlanConfig config;
  bool through_csv = false;  ///< its order is written to a file, and run as the user's own
  unsigned threads = 0;      ///< 0: the deterministic executor
  std::uint64_t seed = 0;
  int turns = 0;  ///< Machine::turns
  Failure failure = Failure::none;
  /// Where: the action that throws or is cancelled in, the stage without an update, the first microbatch
  /// that the source does not have.
  Action at;

  bool strikes_in_an_action() const {
    return failure == Failure::action || failure == Failure::cancel;
  }
};

void showValue(const Case& c, std::ostream& out) {
  const PlanConfig& config = c.config;
  out << fmt::format(
      "{}{} S={} M={} V={} W={} credits={} slots={} order={} threads={} seed={} turns={} "
      "failure={} at={}",
      config.custom ? "own" : to_string(config.schedule), c.through_csv ? " through CSV" : "",
      config.stages, config.microbatches, config.chunks ? std::to_string(*config.chunks) : "-",
      config.drain_depth ? std::to_string(*config.drain_depth) : "-",
      config.credits ? rc::toString(*config.credits) : "-",
      config.slots ? std::to_string(*config.slots) : "-",
      config.order == OrderMode::fixed ? "fixed" : "adaptive", c.threads, c.seed, c.turns,
      to_string(c.failure), to_string(c.at));
  if (config.custom) out << '\n' << write_schedule_csv(*config.custom);
}

/// An order that nobody would write, but that can run: whatever can be next, by chance, with stages on any
/// rank and backwards whole or in halves.
Schedule random_schedule(int stages, int microbatches, KeyedRandom random) {
  const auto below = [&random](std::size_t bound) {
    return random.below(static_cast<std::uint32_t>(bound));
  };
  const auto ranks = 1 + below(static_cast<std::size_t>(stages));
  Schedule schedule;
  schedule.order.resize(ranks);
  for (int s = 0; s < stages; ++s) {
    const auto rank = static_cast<std::uint32_t>(s);
    schedule.rank_of.emplace_back(rank < ranks ? rank : below(ranks));
  }
  for (std::size_t i = schedule.rank_of.size(); i > 1; --i) {
    std::swap(schedule.rank_of[i - 1], schedule.rank_of[below(i)]);
  }
  std::vector<Action> ready;
  for (int mb = 0; mb < microbatches; ++mb) {
    ready.emplace_back(StageId(0), Phase::forward, MicrobatchId(mb));
  }
  while (!ready.empty()) {
    std::swap(ready.back(), ready[below(ready.size())]);
    const Action action = ready.back();
    ready.pop_back();
    schedule.order[schedule.rank_of[action.stage.index()].index()].push_back(action);
    const int stage = action.stage.value;
    const Phase backward = below(2) == 0 ? Phase::backward : Phase::input_gradient;
    if (action.phase == Phase::forward) {
      const bool last = stage + 1 == stages;
      ready.emplace_back(StageId(last ? stage : stage + 1), last ? backward : Phase::forward,
                         action.mb);
    } else if (action.phase != Phase::weight_gradient) {
      if (stage > 0) ready.emplace_back(StageId(stage - 1), backward, action.mb);
      if (action.phase == Phase::input_gradient) {
        ready.emplace_back(action.stage, Phase::weight_gradient, action.mb);
      }
    }
  }
  return schedule;
}

/// The same order as data, as it comes back from a file.
PlanConfig read_back(PlanConfig config) {
  const Plan plan = derive_plan(config);
  const ReadSchedule read =
      read_schedule_csv(write_schedule_csv(Schedule{plan.order, plan.rank_of, plan.overlapped}));
  RC_ASSERT(read.schedule.order == plan.order);
  RC_ASSERT(read.schedule.rank_of == plan.rank_of);
  RC_ASSERT(read.microbatches == plan.microbatches);
  config.custom = read.schedule;
  config.schedule = ScheduleName::custom;
  config.chunks.reset();
  config.drain_depth.reset();
  config.credits.reset();
  config.order = OrderMode::fixed;
  return config;
}

/// In a shape in which the schedule exists.
PlanConfig any_config() {
  PlanConfig config;
  config.stages = *rc::gen::inRange(1, 7);
  config.microbatches = *rc::gen::inRange(1, 18);
  config.schedule = *rc::gen::weightedElement<ScheduleName>({{8, ScheduleName::drain},
                                                             {1, ScheduleName::one_f_one_b},
                                                             {1, ScheduleName::gpipe},
                                                             {1, ScheduleName::eager_1f1b},
                                                             {2, ScheduleName::interleaved},
                                                             {2, ScheduleName::looped_bfs},
                                                             {1, ScheduleName::zb_h1},
                                                             {1, ScheduleName::zb_h2},
                                                             {1, ScheduleName::zb_v},
                                                             {1, ScheduleName::dualpipe_v},
                                                             {2, ScheduleName::custom}});
  if (config.schedule == ScheduleName::custom) {
    config.custom =
        random_schedule(config.stages, config.microbatches,
                        KeyedRandom(*rc::gen::arbitrary<std::uint64_t>(), 0, "", 0, "order"));
  } else if (is_listed(config.schedule)) {
    int chunks = default_chunks(config.schedule);
    const int drawn = *rc::gen::inRange(1, 4);
    if (shape_error(config.schedule, drawn, drawn, drawn).empty()) config.chunks = chunks = drawn;
    config.stages *= chunks;
    if (config.schedule == ScheduleName::dualpipe_v) config.microbatches += config.stages;
  } else if (config.schedule == ScheduleName::drain) {
    if (*rc::gen::inRange(0, 3) == 0) {
      config.credits = *rc::gen::container<std::vector<int>>(
          static_cast<std::size_t>(config.stages), rc::gen::inRange(1, 10));
    } else {
      config.drain_depth = *rc::gen::inRange(0, config.stages + config.microbatches + 1);
    }
    config.order = *rc::gen::element(OrderMode::fixed, OrderMode::adaptive);
  }
  config.costs.forward = {Time::from_units(*rc::gen::inRange(1, 5))};
  config.costs.backward = {Time::from_units(*rc::gen::inRange(1, 5))};
  if (*rc::gen::arbitrary<bool>()) {
    const Plan unlimited = derive_plan(config);
    config.slots = *unlimited.slots_safe + *rc::gen::inRange(0, 3);
  }
  return config;
}

rc::Gen<Case> any_case() {
  return rc::gen::exec([] {
    Case c;
    c.config = any_config();
    c.through_csv = *rc::gen::weightedElement<bool>({{6, false}, {1, true}});
    c.threads = *rc::gen::element(0U, 0U, 1U, 2U, 3U, 4U);
    c.seed = *rc::gen::arbitrary<std::uint64_t>();
    c.turns = *rc::gen::inRange(0, 4);
    c.failure = *rc::gen::weightedElement<Failure>({{6, Failure::none},
                                                    {3, Failure::action},
                                                    {1, Failure::update},
                                                    {1, Failure::source},
                                                    {1, Failure::cancel}});
    c.at = Action(StageId(*rc::gen::inRange(0, c.config.stages)),
                  *rc::gen::element(Phase::forward, Phase::backward, Phase::input_gradient,
                                    Phase::weight_gradient),
                  MicrobatchId(*rc::gen::inRange(0, c.config.microbatches)));
    return c;
  });
}

/// Two steps on a new pipeline; the failure, if there is one, strikes in the first.
test::ToyOutcome run(const Case& c, const PlanConfig& config) {
  std::atomic<int> step{0};
  Pipeline<test::Toy>* live = nullptr;
  test::ToyStage* unprepared = nullptr;
  test::ToyRun run;
  run.config = config;
  run.steps = 2;
  run.made = [&live](Pipeline<test::Toy>& pipeline) { live = &pipeline; };
  run.prepare_stage = [&](test::ToyStage& stage, StageId id) {
    if (c.failure == Failure::update && id == c.at.stage) unprepared = &stage;
  };
  run.on_enter = [&](const Action& action) {
    if (step != 1 || action != c.at) return;
    if (c.failure == Failure::action) throw std::domain_error("planted");
    if (c.failure == Failure::cancel) live->cancel();
  };
  test::Machine machine;
  machine.threads = c.threads;
  machine.seed = c.seed;
  machine.turns = c.turns;
  return test::run_toy(run, nullptr, machine, [&] {
    const bool first = ++step == 1;
    run.available = first && c.failure == Failure::source ? c.at.mb.value : 1 << 30;
    if (unprepared != nullptr) unprepared->fail_prepare = first;
    return true;
  });
}

/// Whether the plan has this action at all: a backward may be split.
bool runs(const Plan& plan, const Action& action) {
  return std::any_of(plan.order.begin(), plan.order.end(),
                     [&](const auto& actions) {
                       return std::find(actions.begin(), actions.end(), action) != actions.end();
                     }) ||
         (plan.order_mode == OrderMode::adaptive && action.phase <= Phase::backward);
}

/// What the first step says; empty: nothing goes wrong.
std::string expected_error(const Case& c, const Plan& plan) {
  if (c.strikes_in_an_action() && !runs(plan, c.at)) return "";
  switch (c.failure) {
    case Failure::none: return "";
    case Failure::action:
      return StepError::from_stage(c.at, std::make_exception_ptr(std::domain_error("planted")))
          .what();
    case Failure::update:
      return fmt::format(
          "stage {}: the update could not be prepared: no memory for the update; "
          "no weight of any stage was changed",
          c.at.stage.value);
    case Failure::source:
      return StepError::from_source(c.at.mb, plan.microbatches,
                                    std::make_exception_ptr(EndOfBatch()))
          .what();
    case Failure::cancel: return "the step was cancelled";
  }
  return "";
}

SLUICE_PROPERTY(PipelineProperty, EveryStepIsThePlainLoopOrOneErrorAndNothing) {
  const Case c = *any_case();
  const PlanConfig config = c.through_csv ? read_back(c.config) : c.config;
  const Plan plan = derive_plan(config);
  const test::ToyOutcome ran = run(c, config);
  const std::string error = expected_error(c, plan);
  RC_TAG(std::string(to_string(error.empty() ? Failure::none : c.failure)));
  RC_CLASSIFY(config.custom.has_value());

  RC_ASSERT(ran.errors == (std::vector<std::string>{error, ""}));
  // Of a step that failed nothing has been applied: the second starts from the first weights.
  RC_ASSERT(ran.weights == (error.empty()
                                ? test::toy_plain_loop(plan.stages, plan.microbatches, 2)
                                : test::toy_plain_loop(plan.stages, plan.microbatches, 1, 1)));
  RC_ASSERT(ran.logs.size() == ran.errors.size());
  for (std::size_t step = 0; step < ran.logs.size(); ++step) {
    RC_ASSERT((ran.errors[step].empty()
                   ? fuzz::holds(plan, ran.logs[step])
                   : fuzz::holds_as_far_as_it_came(plan, ran.logs[step])) == "");
  }
}

SLUICE_PROPERTY(PipelineProperty, WhatMicrobatchesYieldIsFoldedInTheirOrder) {
  const int microbatches = *rc::gen::inRange(1, 20);
  std::vector<int> arrivals;
  for (int mb = 0; mb < microbatches; ++mb) arrivals.push_back(mb);
  for (std::size_t i = arrivals.size(); i > 1; --i) {
    std::swap(arrivals[i - 1], arrivals[*rc::gen::inRange<std::size_t>(0, i)]);
  }
  detail::InOrder<int> in_order;
  int next = 0;
  for (const int mb : arrivals) {
    in_order.add(MicrobatchId(mb), 10 * mb, [&next](MicrobatchId folded, int value) {
      RC_ASSERT(folded == MicrobatchId(next));
      RC_ASSERT(value == 10 * next);
      ++next;
    });
  }
  RC_ASSERT(in_order.count() == microbatches);
}

// Costs of each stage, a time on each link, credits of any kind: the runtime takes the time that was planned.
SLUICE_PROPERTY(PipelineProperty, OverLinksItTakesThePlannedTime) {
  PlanConfig config = (*fuzz::gen_uneven()).config();
  config.costs.overhead = Time();
  RC_ASSERT(fuzz::holds(config) == "");
}

}  // namespace
}  // namespace sluice
