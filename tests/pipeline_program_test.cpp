// The real runtime under the explorer: clean whatever the shape, the order and the fault; and planted
// mistakes of a policy are found, minimised and replayed.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/pipeline_program.hpp>

#include "naive_gate.hpp"

namespace sluice::replay {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Scenario scenario_of(int stages, int microbatches, OrderMode order = OrderMode::fixed) {
  Scenario scenario;
  scenario.config.stages = stages;
  scenario.config.microbatches = microbatches;
  scenario.config.order = order;
  return scenario;
}

std::string first_failure(const Exploration& result) {
  if (result.failures.empty()) return "";
  const Failure& failure = result.failures.front();
  return fmt::format("run {}: {}: {}", failure.run, failure.kind, failure.text);
}

std::string explored(const Scenario& scenario, StrategyName strategy, std::int64_t runs) {
  ExploreOptions options;
  options.strategy = strategy;
  options.runs = runs;
  return first_failure(explore(pipeline_program(scenario).program, options));
}

TEST(PipelineProgram, EveryScheduleIsCleanInEveryOrderTried) {
  for (const ScheduleName name :
       {ScheduleName::drain, ScheduleName::one_f_one_b, ScheduleName::gpipe,
        ScheduleName::eager_1f1b, ScheduleName::interleaved, ScheduleName::looped_bfs,
        ScheduleName::zb_h1, ScheduleName::zb_h2, ScheduleName::zb_v, ScheduleName::dualpipe_v}) {
    Scenario scenario = scenario_of(4, 8);
    scenario.config.schedule = name;
    for (const bool suspends : {false, true}) {
      scenario.suspends = suspends;
      EXPECT_EQ(explored(scenario, StrategyName::random, 100), "") << to_string(scenario);
      EXPECT_EQ(explored(scenario, StrategyName::pct, 100), "") << to_string(scenario);
    }
  }
  EXPECT_EQ(explored(scenario_of(4, 8, OrderMode::adaptive), StrategyName::random, 300), "");
  EXPECT_EQ(explored(scenario_of(3, 4, OrderMode::adaptive), StrategyName::bounded, 2000), "");
}

TEST(PipelineProgram, EveryFaultEndsAsItMustWheneverItStrikes) {
  for (const Fault::Kind kind :
       {Fault::Kind::fails, Fault::Kind::slow, Fault::Kind::nan, Fault::Kind::allocation,
        Fault::Kind::worker, Fault::Kind::cancel, Fault::Kind::deadline, Fault::Kind::delay,
        Fault::Kind::duplicate, Fault::Kind::drop}) {
    for (std::int64_t run = 0; run < 20; ++run) {
      Scenario scenario = scenario_of(3, 5, run % 2 == 0 ? OrderMode::fixed : OrderMode::adaptive);
      scenario.suspends = run % 3 == 0;
      scenario.faults.push_back(draw_fault(kind, derive_plan(scenario.config), 1, run));
      EXPECT_EQ(explored(scenario, StrategyName::random, 30), "") << to_string(scenario);
    }
  }
}

// Under a sanitizer fewer, which takes as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::int64_t scenarios = 100;
#else
constexpr std::int64_t scenarios = 400;
#endif

TEST(PipelineProgram, ScenariosOfAllKindsAreClean) {
  const std::array kinds{Fault::Kind::fails,  Fault::Kind::slow,   Fault::Kind::nan,
                         Fault::Kind::worker, Fault::Kind::cancel, Fault::Kind::deadline,
                         Fault::Kind::delay,  Fault::Kind::drop,   Fault::Kind::duplicate};
  for (std::int64_t run = 0; run < scenarios; ++run) {
    const Scenario scenario = draw_scenario(5, run, kinds);
    EXPECT_EQ(explored(scenario, StrategyName::random, 20), "") << to_string(scenario);
  }
}

TEST(PipelineProgram, RareThingsHaveHappened) {
  Scenario scenario = scenario_of(3, 6, OrderMode::adaptive);
  scenario.config.drain_depth = 4;
  scenario.faults.push_back(Fault{Fault::Kind::cancel, Action()});
  const PipelineProgram explored = pipeline_program(scenario);
  ExploreOptions options;
  options.runs = 3000;
  const Exploration result = explore(explored.program, options);
  EXPECT_EQ(first_failure(result), "");
  EXPECT_GT(result.distinct, 100);
  for (std::size_t i = 0; i < seen_count; ++i) {
    const auto seen = static_cast<Seen>(i);
    if (seen == Seen::failed) continue;  // nothing throws here
    EXPECT_GT(explored.coverage->counts[i], 0) << to_string(seen);
  }
}

TEST(PipelineProgram, AGateTestedOnEveryTurnGetsStuckAndSaysWhere) {
  Scenario scenario = scenario_of(3, 5, OrderMode::adaptive);
  scenario.config.drain_depth = 4;
  const Program program = pipeline_program(scenario, std::make_shared<test::NaiveGate>()).program;
  const Exploration result = explore(program, {});
  ASSERT_THAT(result.failures, SizeIs(1));
  EXPECT_EQ(result.failures.front().kind, "stuck");
  const auto least = minimise(program, result.failures.front());
  ASSERT_TRUE(least);
  EXPECT_THAT(least->deviations, IsEmpty());
  EXPECT_EQ(least->reproduced, 10);
  EXPECT_THAT(least->text, HasSubstr("rank 2"));
}

/// Takes a forward too many, but only when a backward is ready at the same time.
class GreedyOnce final : public Policy {
  class OfRank final : public RankPolicy {
   public:
    OfRank(std::unique_ptr<RankPolicy> law, bool greedy) : law_(std::move(law)), greedy_(greedy) {}
    std::optional<std::size_t> choose(const ReadyView& ready) override {
      const bool forward = ready.size() > 0 && ready[0].phase == Phase::forward;
      if (greedy_ && forward && ready[ready.size() - 1].phase == Phase::backward) return 0;
      return law_->choose(ready);
    }
    void observe(const Event& event) override { law_->observe(event); }

   private:
    std::unique_ptr<RankPolicy> law_;
    bool greedy_;
  };
  std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override {
    return std::make_unique<OfRank>(Adaptive().for_rank(plan, rank), rank == RankId(1));
  }
};

TEST(PipelineProgram, ARaceInAPolicyComesDownToAFewDeviations) {
  const Program program =
      pipeline_program(scenario_of(3, 6, OrderMode::adaptive), std::make_shared<GreedyOnce>())
          .program;
  const Exploration result = explore(program, {});
  ASSERT_THAT(result.failures, SizeIs(1));
  EXPECT_EQ(result.failures.front().kind, "over-credit") << result.failures.front().text;
  const auto least = minimise(program, result.failures.front());
  ASSERT_TRUE(least);
  EXPECT_LE(least->deviations.size(), 10);
  EXPECT_EQ(least->reproduced, 10);
}

}  // namespace
}  // namespace sluice::replay
