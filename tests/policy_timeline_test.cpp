// A policy in virtual time: what is said when it cannot go on.
#include <sluice/policy_timeline.hpp>

#include <functional>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// Every rank does what the function says.
class Scripted final : public Policy {
 public:
  using Choose = std::function<std::optional<std::size_t>(RankId, const ReadyView&)>;
  explicit Scripted(Choose choose) : choose_(std::move(choose)) {}

  std::unique_ptr<RankPolicy> for_rank(const Plan&, RankId rank) override {
    return std::make_unique<OfRank>(choose_, rank);
  }

 private:
  class OfRank final : public RankPolicy {
   public:
    OfRank(const Choose& choose, RankId rank) : choose_(choose), rank_(rank) {}
    std::optional<std::size_t> choose(const ReadyView& ready) override {
      return choose_(rank_, ready);
    }
    void observe(const Event&) override {}

   private:
    const Choose& choose_;
    RankId rank_;
  };

  Choose choose_;
};

Plan plan_of(int stages, int microbatches, std::optional<int> slots = {}) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.slots = slots;
  return derive_plan(config);
}

TEST(PolicyTimeline, OneThatWaitsForEverIsStuckAndSaysWhatCouldRun) {
  Scripted policy([](RankId rank, const ReadyView&) {
    return rank == RankId(0) ? std::optional<std::size_t>(0) : std::nullopt;
  });
  EXPECT_THAT([&] { simulate_policy(plan_of(2, 2), policy); },
              ThrowsMessage<PolicyStuckError>(
                  HasSubstr("rank 0 has nothing it could start; rank 1 waits and could start 1F0 "
                            "1F1")));
}

TEST(PolicyTimeline, WithoutASlotNothingIsOffered) {
  // Forwards only: the last stage never gives a slot back, because nobody takes its gradients.
  Scripted policy([](RankId, const ReadyView& ready) -> std::optional<std::size_t> {
    if (ready[0].phase != Phase::forward) return std::nullopt;
    return 0;
  });
  EXPECT_THAT([&] { simulate_policy(plan_of(2, 8, 1), policy); },
              ThrowsMessage<PolicyStuckError>(HasSubstr("rank 1 waits and could start 1B0")));
}

TEST(PolicyTimeline, AChoiceThatWasNotOfferedIsRefused) {
  Scripted policy([](RankId, const ReadyView& ready) { return std::optional(ready.size()); });
  EXPECT_THAT([&] { simulate_policy(plan_of(2, 2), policy); },
              ThrowsMessage<std::out_of_range>(
                  HasSubstr("the policy of rank 0 chose option 2: expected less than 2")));
}

TEST(PolicyTimeline, OffersNoMoreThanTheDoorLetsIn) {
  int most = 0;
  Scripted policy([&most](RankId rank, const ReadyView& ready) {
    if (rank == RankId(0)) most = std::max(most, static_cast<int>(ready.size()));
    return std::optional<std::size_t>(0);
  });
  simulate_policy(plan_of(2, 50), policy);
  EXPECT_EQ(most, 3);  // two credits, and one more
}

}  // namespace
}  // namespace sluice
