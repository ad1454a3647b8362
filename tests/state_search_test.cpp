// The exhaustive search over the states of a plan: what it counts, what it finds, and that its model is
// the planner's.
#include <algorithm>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/plan.hpp>
#include <sluice/policy.hpp>
#include <sluice/replay/state_search.hpp>

#include "naive_gate.hpp"

namespace sluice::replay {
namespace {

using testing::HasSubstr;

PlanConfig config_of(int stages, int microbatches, std::optional<int> slots = std::nullopt) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.slots = slots;
  return config;
}

SearchResult search(const PlanConfig& config) {
  const Plan plan = derive_plan(config);
  const auto policy = policy_for(plan);
  return search_states(plan, *policy);
}

TEST(StateSearch, OneStageRunsItsOrderOneEventAfterTheOther) {
  const auto result = search(config_of(1, 3));
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.states, 1 + 2 * 2 * 3);
  EXPECT_EQ(result.interleavings, 1);
}

// Two stages, one microbatch: 0F, 1F, 1B, 0B follow each other strictly.
TEST(StateSearch, OneMicrobatchIsAChain) {
  EXPECT_EQ(search(config_of(2, 1)).states, 1 + 2 * 2 * 2);
}

TEST(StateSearch, EverySmallScheduleIsSearchedWholeAndIsClean) {
  int searched = 0;
  std::int64_t states = 0;
  std::int64_t most = 0;
  for (const ScheduleName name :
       {ScheduleName::drain, ScheduleName::one_f_one_b, ScheduleName::gpipe,
        ScheduleName::eager_1f1b, ScheduleName::interleaved, ScheduleName::looped_bfs,
        ScheduleName::zb_h1, ScheduleName::zb_h2, ScheduleName::zb_v, ScheduleName::dualpipe_v}) {
    for (const OrderMode order : {OrderMode::fixed, OrderMode::adaptive}) {
      for (int stages = 1; stages <= 4; ++stages) {
        for (int microbatches = 1; microbatches <= 4; ++microbatches) {
          for (int slots = 0; slots <= 2; ++slots) {
            PlanConfig config = config_of(stages, microbatches, slots);
            config.schedule = name;
            config.order = order;
            try {
              const auto result = search(config);
              EXPECT_TRUE(result.complete) << to_string(name) << stages << microbatches << slots;
              EXPECT_FALSE(result.wrong) << result.wrong->text;
              ++searched;
              states += result.states;
              most = std::max(most, result.states);
            } catch (const ConfigError&) {
              continue;  // no such schedule for this shape
            }
          }
        }
      }
    }
  }
  fmt::print("{} plans of S, M <= 4 with 0, 1 and 2 slots: {} states, at most {} in one\n",
             searched, states, most);
  EXPECT_GT(searched, 250);
}

TEST(StateSearch, StatesOfTheUsualSizeAreCountedAlikeEachTime) {
  const auto first = search(config_of(4, 4, 2));
  const auto second = search(config_of(4, 4, 2));
  EXPECT_TRUE(first.complete);
  EXPECT_EQ(first.states, second.states);
  EXPECT_GT(first.interleavings, 1e6);
}

// The latch of the gate: tested anew on every turn, the last microbatches are fewer than it asks for.
TEST(StateSearch, AGateThatIsTestedOnEveryTurnIsFoundStuck) {
  PlanConfig config = config_of(4, 4);
  config.drain_depth = 5;
  config.order = OrderMode::adaptive;
  const auto policy = std::make_shared<test::NaiveGate>();
  const auto plan = std::make_shared<const Plan>(derive_plan(config));
  const auto result = search_states(*plan, *policy);
  EXPECT_FALSE(result.complete);
  ASSERT_TRUE(result.wrong);
  EXPECT_EQ(result.wrong->kind, "stuck");
  EXPECT_THAT(result.wrong->text, HasSubstr("rank 3"));
  // The same state, reached once more by the deviations alone.
  const Program model = model_program(plan, policy);
  ByDeviations strategy(deviations_to(*result.wrong, model));
  Trace trace;
  EXPECT_EQ(run_once(model, strategy, trace).text, result.wrong->text);
}

class OneMoreThanAllowed final : public Policy {
  class OfRank final : public RankPolicy {
    std::optional<std::size_t> choose(const ReadyView& ready) override {
      if (ready.size() == 0) return std::nullopt;
      return 0;  // forwards come first, whatever is held
    }
    void observe(const Event&) override {}
    std::optional<std::uint64_t> fingerprint() const override { return 0; }
  };
  std::unique_ptr<RankPolicy> for_rank(const Plan&, RankId) override {
    return std::make_unique<OfRank>();
  }
};

TEST(StateSearch, APolicyThatHoldsTooMuchBreaksItsCredit) {
  PlanConfig config = config_of(3, 4);
  config.order = OrderMode::adaptive;
  OneMoreThanAllowed policy;
  const auto result = search_states(derive_plan(config), policy);
  ASSERT_TRUE(result.wrong);
  EXPECT_EQ(result.wrong->kind, "over-credit");
  EXPECT_THAT(result.wrong->text, HasSubstr("0F3 starts while stage 0 holds 3, its credit is 3"));
}

TEST(StateSearch, WithoutAFingerprintNothingIsCalledComplete) {
  class Silent final : public Policy {
    class OfRank final : public RankPolicy {
     public:
      explicit OfRank(std::unique_ptr<RankPolicy> real) : real_(std::move(real)) {}
      std::optional<std::size_t> choose(const ReadyView& ready) override {
        return real_->choose(ready);
      }
      void observe(const Event& event) override { real_->observe(event); }

     private:
      std::unique_ptr<RankPolicy> real_;
    };
    std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override {
      return std::make_unique<OfRank>(Adaptive().for_rank(plan, rank));
    }
  };
  PlanConfig config = config_of(2, 3);
  config.order = OrderMode::adaptive;
  Silent silent;
  const auto blind = search_states(derive_plan(config), silent);
  EXPECT_FALSE(blind.complete);
  EXPECT_FALSE(blind.wrong);
  EXPECT_GE(blind.states, search(config).states);
}

TEST(StateSearch, ALimitEndsTheSearchAndSaysSo) {
  const Plan plan = derive_plan(config_of(4, 4));
  const auto policy = policy_for(plan);
  SearchOptions options;
  options.most_states = 100;
  const auto result = search_states(plan, *policy, options);
  EXPECT_FALSE(result.complete);
  EXPECT_GE(result.states, 100);
}

// An order that sticks with one slot: the planner refuses it, and here is its cycle.
TEST(StateSearch, TooFewSlotsAreACycle) {
  PlanConfig config = config_of(2, 4);
  config.credits = {4, 1};
  Plan plan = derive_plan(config);
  plan.slots = 1;
  const auto policy = policy_for(plan);
  const auto result = search_states(plan, *policy);
  ASSERT_TRUE(result.wrong);
  EXPECT_EQ(result.wrong->kind, "stuck");
  EXPECT_EQ(result.wrong->cycle, (std::vector<RankId>{RankId(0), RankId(1)}));
  EXPECT_THAT(result.wrong->text, HasSubstr("no free slot to stage"));
}

}  // namespace
}  // namespace sluice::replay
