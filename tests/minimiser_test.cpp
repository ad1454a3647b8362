// What is left of a failure when it has been made small: over many planted races in policies, met by random
// walks through shapes of many sizes.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sluice/replay/pipeline_explorer.hpp>

#include "naive_gate.hpp"

namespace sluice::replay {
namespace {

/// The law, with a mistake on one rank that shows only when the right things are ready at once.
class Planted final : public Policy {
 public:
  enum class Mistake : std::uint8_t {
    greedy,  ///< a forward too many, when a backward is ready beside it
    sulks,   ///< waits for ever once three actions were ready at once
    throws,  ///< cannot make up its mind between two forwards and a backward
  };

  Planted(Mistake mistake, RankId rank) : mistake_(mistake), rank_(rank) {}

  std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override {
    auto law = Adaptive().for_rank(plan, rank);
    if (rank != rank_) return law;
    return std::make_unique<OfRank>(std::move(law), mistake_);
  }

 private:
  class OfRank final : public RankPolicy {
   public:
    OfRank(std::unique_ptr<RankPolicy> law, Mistake mistake)
        : law_(std::move(law)), mistake_(mistake) {}

    std::optional<std::size_t> choose(const ReadyView& ready) override {
      std::size_t forwards = 0;
      while (forwards < ready.size() && ready[forwards].phase == Phase::forward) ++forwards;
      const std::size_t backwards = ready.size() - forwards;
      switch (mistake_) {
        case Mistake::greedy:
          if (forwards > 0 && backwards > 0) return 0;
          break;
        case Mistake::sulks:
          sulking_ = sulking_ || ready.size() >= 3;
          if (sulking_) return std::nullopt;
          break;
        case Mistake::throws:
          if (forwards >= 2 && backwards >= 1) throw std::logic_error("planted");
          break;
      }
      return law_->choose(ready);
    }
    void observe(const Event& event) override { law_->observe(event); }

   private:
    std::unique_ptr<RankPolicy> law_;
    Mistake mistake_;
    bool sulking_ = false;
  };

  Mistake mistake_;
  RankId rank_;
};

// The classic mistake, however large the shape in which it was met.
TEST(Minimiser, AGateTestedOnEveryTurnComesDownToOneStageAndTwoMicrobatches) {
  Scenario scenario;
  scenario.config.stages = 4;
  scenario.config.microbatches = 4;
  scenario.config.drain_depth = 5;
  scenario.config.order = OrderMode::adaptive;
  const auto policy = std::make_shared<test::NaiveGate>();
  for (const Exploring strategy : {Exploring::exhaustive, Exploring::random}) {
    PipelineExploreOptions options;
    options.strategy = strategy;
    const auto result = explore_pipeline(scenario, options, policy);
    ASSERT_EQ(result.failures.size(), 1);
    const PipelineFailure& failure = result.failures.front();
    EXPECT_EQ(failure.kind, "stuck");
    EXPECT_EQ(to_string(failure.token.scenario), "-S 1 -M 2 -W 1 --order adaptive");
    EXPECT_TRUE(failure.token.deviations.empty());
    EXPECT_EQ(failure.reproduced, 10);
    EXPECT_EQ(failure.others_finish, 0);
    const Token token = parse_token(to_string(failure.token));
    EXPECT_EQ(replay_token(token, policy).kind, "stuck");
    EXPECT_EQ(replay_token(token).kind, "");  // the law's own gate is latched
  }
}

// Ten times slower under a sanitizer, which is not what finds a wrong minimum.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int most_stages = 3;
constexpr int least_found = 8;
#else
constexpr int most_stages = 5;
constexpr int least_found = 30;
#endif

TEST(Minimiser, NineInTenFailuresEndWithTenDeviationsOrFewer) {
  int found = 0;
  int small = 0;
  int steady = 0;
  std::size_t longest_token = 0;
  std::chrono::steady_clock::duration longest{};
  for (const auto mistake :
       {Planted::Mistake::greedy, Planted::Mistake::sulks, Planted::Mistake::throws}) {
    for (int stages = 2; stages <= most_stages; ++stages) {
      for (int rank = 0; rank < stages; ++rank) {
        Scenario scenario;
        scenario.config.stages = stages;
        scenario.config.microbatches = 4 + 2 * stages;
        scenario.config.order = OrderMode::adaptive;
        scenario.suspends = rank % 2 == 1;
        PipelineExploreOptions options;
        options.runs = 2000;
        options.seed = static_cast<std::uint64_t>(rank);
        const auto before = std::chrono::steady_clock::now();
        const auto result =
            explore_pipeline(scenario, options, std::make_shared<Planted>(mistake, RankId(rank)));
        longest = std::max(longest, std::chrono::steady_clock::now() - before);
        if (result.failures.empty()) continue;  // here the mistake cannot show
        const PipelineFailure& failure = result.failures.front();
        ++found;
        small += failure.token.deviations.size() <= 10 ? 1 : 0;
        steady += failure.reproduced == 10 ? 1 : 0;
        longest_token = std::max(longest_token, to_string(failure.token).size());
        EXPECT_LE(failure.token.deviations.size(), static_cast<std::size_t>(failure.met_with));
        // The token of the order as it was met is short as well, and is that order.
        EXPECT_LE(to_string(failure.original).size(), 64);
        EXPECT_EQ(
            replay_token(failure.original, std::make_shared<Planted>(mistake, RankId(rank))).kind,
            failure.kind);
      }
    }
  }
  fmt::print(
      "{} failures, {} of them with at most 10 deviations, the longest token {} letters, the "
      "longest search {:.1f} s\n",
      found, small, longest_token, std::chrono::duration<double>(longest).count());
  EXPECT_GE(found, least_found);
  EXPECT_GE(small * 10, found * 9);
  EXPECT_EQ(steady, found);
  EXPECT_LE(longest_token, 64);
}

}  // namespace
}  // namespace sluice::replay
