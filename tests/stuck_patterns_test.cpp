// Stuck verdicts: planted patterns, each known by construction to end in one cycle of ranks, run by the real
// runtime in an order of its own; the verdict must name just that cycle. And the other side: a million
// clean runs without a verdict are one command,
//     sluice explore -S 4 -M 8 --order adaptive --runs 1000000
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sluice/pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>

#include "stuck_cycle.hpp"
#include "toy_model.hpp"

namespace sluice {
namespace {

struct Pattern {
  std::string name;
  Plan plan;
  std::vector<int> cycle;  ///< ranks, the smallest first
};

/// A plan whose order is then tampered with.
Plan plan_of(int stages, int microbatches, ScheduleName schedule, std::optional<int> chunks = {}) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.schedule = schedule;
  config.chunks = chunks;
  Plan plan = derive_plan(config);
  plan.credits.assign(plan.credits.size(), microbatches);  // the door lets everything in
  return plan;
}

void move_before(std::vector<Action>& order, const Action& moved, const Action& place) {
  order.erase(std::find(order.begin(), order.end(), moved));
  order.insert(std::find(order.begin(), order.end(), place), moved);
}

/// A stage wants a backward before it has let through the forward that the backward comes from: it
/// waits for the next stage, which waits for it. The last stage waits for itself.
void backward_too_soon(std::vector<Pattern>& patterns) {
  for (int stages = 1; stages <= 6; ++stages) {
    for (StageId s(0); s.value < stages; s = s.next()) {
      const int mb = s.value % 2;
      Pattern pattern{fmt::format("{}B{} before its forward, of {}", s.value, mb, stages),
                      plan_of(stages, 4, ScheduleName::gpipe),
                      {}};
      move_before(pattern.plan.order[s.index()], Action(s, Phase::backward, MicrobatchId(mb)),
                  Action(s, Phase::forward, MicrobatchId(mb)));
      pattern.cycle = {s.value};
      if (s.value + 1 < stages) pattern.cycle.push_back(s.value + 1);
      patterns.push_back(std::move(pattern));
    }
  }
}

/// A stage finishes microbatch 0 before it starts microbatch 1, the next one wants 1 first.
void crossed(std::vector<Pattern>& patterns) {
  for (int stages = 2; stages <= 6; ++stages) {
    for (StageId s(0); s.value + 1 < stages; s = s.next()) {
      Pattern pattern{fmt::format("stages {} and {} of {} crossed", s.value, s.value + 1, stages),
                      plan_of(stages, 3, ScheduleName::gpipe),
                      {s.value, s.value + 1}};
      auto& first = pattern.plan.order[s.index()];
      move_before(first, Action(s, Phase::backward, MicrobatchId(0)),
                  Action(s, Phase::forward, MicrobatchId(1)));
      auto& second = pattern.plan.order[s.next().index()];
      move_before(second, Action(s.next(), Phase::forward, MicrobatchId(1)),
                  Action(s.next(), Phase::forward, MicrobatchId(0)));
      patterns.push_back(std::move(pattern));
    }
  }
}

/// Every rank wants its last stage's forward first, whose input comes from the rank before: all in a ring.
void rings(std::vector<Pattern>& patterns) {
  for (int ranks = 2; ranks <= 6; ++ranks) {
    for (int chunks = 2; chunks <= 4; ++chunks) {
      Pattern pattern{fmt::format("a ring of {} with {} stages each", ranks, chunks),
                      plan_of(ranks * chunks, ranks, ScheduleName::interleaved, chunks),
                      {}};
      for (int r = 0; r < ranks; ++r) {
        const StageId last(ranks * (chunks - 1) + r);
        auto& order = pattern.plan.order[static_cast<std::size_t>(r)];
        move_before(order, Action(last, Phase::forward, MicrobatchId(0)), order.front());
        pattern.cycle.push_back(r);
      }
      patterns.push_back(std::move(pattern));
    }
  }
}

/// The ranks of the cycle as a set: a ring may be told in either direction.
std::vector<int> cycle_of(const std::string& text) {
  std::vector<int> ranks = test::cycle_in(text);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string verdict_on(const Plan& plan, std::uint64_t seed) {
  replay::DeterministicContext context(replay::seeded_picks(seed));
  PipelineOptions options;
  options.executors = replay::serial_per_rank(context, plan.ranks);
  Pipeline<test::Toy> pipeline(plan, test::toy_factory(std::make_shared<test::ToyHooks>()),
                               options);
  std::string error = "never completed";
  pipeline.async_step(
      test::toy_batch(0, plan.microbatches),
      [&error](std::exception_ptr thrown, StepResult) { error = thrown ? text_of(thrown) : ""; });
  context.run();
  return error;
}

TEST(StuckPatterns, EachIsFoundWithItsCycleInEveryOrder) {
  std::vector<Pattern> patterns;
  backward_too_soon(patterns);
  crossed(patterns);
  rings(patterns);
  EXPECT_GE(patterns.size(), 50);
  for (const Pattern& pattern : patterns) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const std::string verdict = verdict_on(pattern.plan, seed);
      EXPECT_EQ(verdict.substr(0, 6), "stuck:") << pattern.name;
      EXPECT_EQ(cycle_of(verdict), pattern.cycle) << pattern.name << '\n' << verdict;
    }
  }
}

}  // namespace
}  // namespace sluice
