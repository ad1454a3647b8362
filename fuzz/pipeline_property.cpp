// The runtime against the law: whatever the shape, the order, the slots, the threads, the suspensions and
// the failures, every action runs exactly once and in legal order, within credits and slots, with the bits of
// the plain loop; or the step ends with the one error, and nothing is applied.
//
// More cases: RC_PARAMS="max_success=100000" ./pipeline_property
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sluice/fuzz/holds.hpp>
#include <sluice/fuzz/property.hpp>
#include <sluice/in_order.hpp>

#include "toy_run.hpp"

namespace sluice {
namespace {

/// One case: everything that the runtime's behaviour may depend on.
struct Case {
  PlanConfig config;
  unsigned threads = 0;  ///< 0: the deterministic executor
  std::uint64_t seed = 0;
  int turns = 0;  ///< Machine::turns
  std::optional<Action> throws_at;
};

void showValue(const Case& c, std::ostream& out) {
  out << fmt::format(
      "{} S={} M={} W={} credits={} slots={} order={} threads={} seed={} turns={} "
      "throws_at={}",
      to_string(c.config.schedule), c.config.stages, c.config.microbatches,
      c.config.drain_depth ? std::to_string(*c.config.drain_depth) : "-",
      c.config.credits ? rc::toString(*c.config.credits) : "-",
      c.config.slots ? std::to_string(*c.config.slots) : "-",
      c.config.order == OrderMode::fixed ? "fixed" : "adaptive", c.threads, c.seed, c.turns,
      c.throws_at ? to_string(*c.throws_at) : "-");
}

rc::Gen<Case> any_case() {
  return rc::gen::exec([] {
    Case c;
    c.config.stages = *rc::gen::inRange(1, 7);
    c.config.microbatches = *rc::gen::inRange(1, 18);
    c.config.schedule = *rc::gen::weightedElement<ScheduleName>({{8, ScheduleName::drain},
                                                                 {1, ScheduleName::one_f_one_b},
                                                                 {1, ScheduleName::gpipe},
                                                                 {1, ScheduleName::eager_1f1b},
                                                                 {1, ScheduleName::interleaved},
                                                                 {1, ScheduleName::looped_bfs},
                                                                 {1, ScheduleName::zb_h1},
                                                                 {1, ScheduleName::zb_h2},
                                                                 {1, ScheduleName::zb_v},
                                                                 {1, ScheduleName::dualpipe_v}});
    if (is_listed(c.config.schedule)) {
      // Into a shape in which the schedule exists.
      const int chunks = default_chunks(c.config.schedule);
      c.config.stages *= chunks;
      if (c.config.schedule == ScheduleName::dualpipe_v) c.config.microbatches += c.config.stages;
    } else if (c.config.schedule == ScheduleName::drain) {
      if (*rc::gen::inRange(0, 3) == 0) {
        c.config.credits = *rc::gen::container<std::vector<int>>(
            static_cast<std::size_t>(c.config.stages), rc::gen::inRange(1, 10));
      } else {
        c.config.drain_depth = *rc::gen::inRange(0, c.config.stages + c.config.microbatches + 1);
      }
      c.config.order = *rc::gen::element(OrderMode::fixed, OrderMode::adaptive);
    }
    c.config.costs.forward = {Time::from_units(*rc::gen::inRange(1, 5))};
    c.config.costs.backward = {Time::from_units(*rc::gen::inRange(1, 5))};
    if (*rc::gen::arbitrary<bool>()) {
      const Plan unlimited = derive_plan(c.config);
      c.config.slots = *unlimited.slots_safe + *rc::gen::inRange(0, 3);
    }
    c.threads = *rc::gen::element(0U, 0U, 1U, 2U, 3U, 4U);
    c.seed = *rc::gen::arbitrary<std::uint64_t>();
    c.turns = *rc::gen::inRange(0, 4);
    if (*rc::gen::inRange(0, 3) == 0) {
      c.throws_at = Action(StageId(*rc::gen::inRange(0, c.config.stages)),
                           *rc::gen::element(Phase::forward, Phase::backward, Phase::input_gradient,
                                             Phase::weight_gradient),
                           MicrobatchId(*rc::gen::inRange(0, c.config.microbatches)));
    }
    return c;
  });
}

/// Two steps on a new pipeline; the failure, if there is one, strikes in the first.
test::ToyOutcome run(const Case& c) {
  std::atomic<int> step{0};
  test::ToyRun run;
  run.config = c.config;
  run.steps = 2;
  run.on_enter = [&](const Action& action) {
    if (step == 1 && c.throws_at == action) throw std::domain_error("planted");
  };
  test::Machine machine;
  machine.threads = c.threads;
  machine.seed = c.seed;
  machine.turns = c.turns;
  return test::run_toy(run, nullptr, machine, [&step] { return ++step > 0; });
}

/// Whether the plan has this action at all: a backward may be split.
bool runs(const Plan& plan, const Action& action) {
  return std::any_of(plan.order.begin(), plan.order.end(),
                     [&](const auto& actions) {
                       return std::find(actions.begin(), actions.end(), action) != actions.end();
                     }) ||
         (plan.order_mode == OrderMode::adaptive && action.phase <= Phase::backward);
}

SLUICE_PROPERTY(PipelineProperty, EveryStepIsThePlainLoopOrOneErrorAndNothing) {
  const Case c = *any_case();
  const Plan plan = derive_plan(c.config);
  const test::ToyOutcome ran = run(c);
  RC_TAG(std::string(to_string(c.config.schedule)), c.throws_at.has_value(),
         c.config.slots.value_or(-1));

  const bool strikes = c.throws_at && runs(plan, *c.throws_at);
  const std::string planted =
      strikes ? fmt::format("stage {}, mb {}, {} failed: planted", c.throws_at->stage.value,
                            c.throws_at->mb.value, letter(c.throws_at->phase))
              : "";
  RC_ASSERT(ran.errors == (std::vector<std::string>{planted, ""}));
  // Of a step that failed nothing has been applied: the second starts from the first weights.
  RC_ASSERT(ran.weights == (strikes ? test::toy_plain_loop(plan.stages, plan.microbatches, 1, 1)
                                    : test::toy_plain_loop(plan.stages, plan.microbatches, 2)));
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
