// The runtime against the law: whatever the shape, the order, the threads, the suspensions and the
// failures, every action runs exactly once and in legal order, within the credits, with the bits of the
// plain loop; or the step ends with the one error, and nothing is applied.
//
// More cases: RC_PARAMS="max_success=100000" ./pipeline_property
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sluice/law.hpp>
#include <sluice/pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>

#include "../tests/toy_model.hpp"

namespace sluice {
namespace {

using test::Toy;
using test::toy_batch;
using test::toy_factory;
using test::ToyHooks;
using test::ToyStage;

/// One case: everything that the runtime's behaviour may depend on.
struct Case {
  PlanConfig config;
  unsigned threads = 0;  ///< 0: the deterministic executor
  std::uint64_t seed = 0;
  std::optional<Action> throws_at;

  /// A hash of (seed, action): how often that action yields.
  int yields(const Action& action) const {
    const std::string path = to_string(action);
    return static_cast<int>(KeyedRandom(seed, 0, path, 0, "yields").below(4));
  }
};

void showValue(const Case& c, std::ostream& out) {
  out << fmt::format("S={} M={} W={} credits={} order={} threads={} seed={} throws_at={}",
                     c.config.stages, c.config.microbatches,
                     c.config.drain_depth ? std::to_string(*c.config.drain_depth) : "-",
                     c.config.credits ? rc::toString(*c.config.credits) : "-",
                     c.config.order == OrderMode::fixed ? "fixed" : "adaptive", c.threads, c.seed,
                     c.throws_at ? to_string(*c.throws_at) : "-");
}

rc::Gen<Case> any_case() {
  return rc::gen::exec([] {
    Case c;
    c.config.stages = *rc::gen::inRange(1, 7);
    c.config.microbatches = *rc::gen::inRange(1, 18);
    if (*rc::gen::inRange(0, 3) == 0) {
      c.config.credits = *rc::gen::container<std::vector<int>>(
          static_cast<std::size_t>(c.config.stages), rc::gen::inRange(1, 10));
    } else {
      c.config.drain_depth = *rc::gen::inRange(0, c.config.stages + c.config.microbatches + 1);
    }
    c.config.order = *rc::gen::element(OrderMode::fixed, OrderMode::adaptive);
    c.config.costs.forward = {Time::from_units(*rc::gen::inRange(1, 5))};
    c.config.costs.backward = {Time::from_units(*rc::gen::inRange(1, 5))};
    c.threads = *rc::gen::element(0U, 0U, 1U, 2U, 3U, 4U);
    c.seed = *rc::gen::arbitrary<std::uint64_t>();
    if (*rc::gen::inRange(0, 3) == 0) {
      c.throws_at =
          Action(StageId(*rc::gen::inRange(0, c.config.stages)),
                 *rc::gen::element(Phase::forward, Phase::backward),
                 MicrobatchId(*rc::gen::inRange(0, c.config.microbatches)));
    }
    return c;
  });
}

/// What two steps on a new pipeline did.
struct Ran {
  std::vector<std::string> errors;  // per step; empty: none
  std::vector<std::vector<Event>> logs;
  std::vector<double> before;
  std::vector<double> after;
};

std::vector<double> weights_of(Pipeline<Toy>& pipeline) {
  std::vector<double> weights;
  for (int s = 0; s < pipeline.plan().stages; ++s) {
    weights.push_back(static_cast<ToyStage&>(pipeline.stage(StageId(s))).weight());
  }
  return weights;
}

/// Two steps; the failure, if there is one, strikes in the first.
Ran run(const Case& c) {
  Ran ran;
  std::atomic<bool> armed{true};
  auto hooks = std::make_shared<ToyHooks>();
  hooks->yields = [c](const Action& action) { return c.yields(action); };
  hooks->on_enter = [c, &armed](const Action& action) {
    if (armed && c.throws_at == action) throw std::domain_error("planted");
  };
  PipelineOptions options;
  options.log = [&ran](std::span<const Event> events) {
    ran.logs.emplace_back(events.begin(), events.end());
  };
  const auto steps = [&](const auto& run_one) {
    Pipeline<Toy> pipeline(derive_plan(c.config), toy_factory(hooks), options);
    ran.before = weights_of(pipeline);
    for (int step = 0; step < 2; ++step) {
      const std::exception_ptr error = run_one(pipeline, toy_batch(0, c.config.microbatches));
      ran.errors.push_back(error ? text_of(error) : "");
      ran.after = weights_of(pipeline);
      if (!error) return;
      RC_ASSERT(ran.after == ran.before);
      armed = false;
    }
  };
  if (c.threads == 0) {
    replay::DeterministicContext context(replay::seeded_picks(c.seed));
    options.executors = single_thread(context.get_executor());
    steps([&context](Pipeline<Toy>& pipeline, Batch<Toy> batch) {
      std::exception_ptr outcome = std::make_exception_ptr(std::logic_error("never completed"));
      pipeline.async_step(std::move(batch),
                          [&outcome](std::exception_ptr error, StepResult) { outcome = error; });
      context.run();
      return outcome;
    });
  } else {
    asio::thread_pool pool(c.threads);
    options.executors = strand_per_rank(pool.get_executor());
    steps([](Pipeline<Toy>& pipeline, Batch<Toy> batch) -> std::exception_ptr {
      try {
        pipeline.async_step(std::move(batch), asio::use_future).get();
        return nullptr;
      } catch (...) {
        return std::current_exception();
      }
    });
    pool.join();
  }
  return ran;
}

/// Every action of the log is legal where it stands; all of them, when the step was complete.
void check_log(const Case& c, const Plan& plan, const std::vector<Event>& events, bool complete) {
  std::set<Action> entered;
  std::set<Action> exited;
  std::vector<int> held(static_cast<std::size_t>(plan.stages), 0);
  std::vector<std::vector<Action>> order(static_cast<std::size_t>(plan.stages));
  const StageId last(plan.stages - 1);
  for (const Event& event : events) {
    const Action& a = event.action;
    if (event.kind == Event::Kind::exit) {
      RC_ASSERT(exited.insert(a).second);
      if (a.phase == Phase::backward) --held[a.stage.index()];
    }
    if (event.kind != Event::Kind::enter) continue;
    RC_ASSERT(entered.insert(a).second);
    order[a.stage.index()].push_back(a);
    if (a.mb.value > 0) RC_ASSERT(entered.contains(Action(a.stage, a.phase, a.mb.previous())));
    if (a.phase == Phase::forward) {
      ++held[a.stage.index()];
      RC_ASSERT(held[a.stage.index()] <= plan.credits[a.stage.index()]);
      if (a.stage.value > 0) {
        RC_ASSERT(exited.contains(Action(a.stage.previous(), Phase::forward, a.mb)));
      }
    } else {
      RC_ASSERT(exited.contains(Action(a.stage, Phase::forward, a.mb)));
      if (a.stage < last) {
        RC_ASSERT(exited.contains(Action(a.stage.next(), Phase::backward, a.mb)));
      } else if (a.mb.value == 0) {
        RC_ASSERT(held[a.stage.index()] >= plan.gate);
      }
    }
  }
  if (!complete) return;
  RC_ASSERT(exited.size() == 2U * static_cast<std::size_t>(plan.stages * plan.microbatches));
  if (c.config.order == OrderMode::fixed) RC_ASSERT(order == plan.order);
}

RC_GTEST_PROP(PipelineProperty, EveryStepIsThePlainLoopOrOneErrorAndNothing, ()) {
  const Case c = *any_case();
  const Plan plan = derive_plan(c.config);
  const Ran ran = run(c);
  RC_TAG(c.threads, c.throws_at.has_value());

  const auto expected = test::toy_plain_loop(plan.stages, plan.microbatches, 1);
  if (c.throws_at) {
    RC_ASSERT(ran.errors.front() ==
              fmt::format("stage {}, mb {}, {} failed: planted", c.throws_at->stage.value,
                          c.throws_at->mb.value, letter(c.throws_at->phase)));
    RC_ASSERT(ran.errors.size() == 2U);
  }
  RC_ASSERT(ran.errors.back().empty());
  RC_ASSERT(ran.after == expected);
  RC_ASSERT(ran.logs.size() == ran.errors.size());
  for (std::size_t step = 0; step < ran.logs.size(); ++step) {
    check_log(c, plan, ran.logs[step], ran.errors[step].empty());
  }
}

}  // namespace
}  // namespace sluice
