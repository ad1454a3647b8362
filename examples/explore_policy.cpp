// A schedule of your own, explored: every order of every small shape, and the smallest one that fails.
#include <memory>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/fuzz/explore.hpp>
#include <sluice/policy.hpp>

using namespace sluice;

/// Backward first: whenever a gradient is there, it goes on; a forward starts only when none is, and
/// when the stage holds fewer microbatches than its credit, and `too_many` more.
class BackwardFirst final : public Policy {
 public:
  explicit BackwardFirst(int too_many) : too_many_(too_many) {}

  std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override {
    return std::make_unique<OfRank>(plan.credits[rank.index()] + too_many_);
  }

 private:
  class OfRank final : public RankPolicy {
   public:
    explicit OfRank(int credit) : credit_(credit) {}

    std::optional<std::size_t> choose(const ReadyView& ready) override {
      for (std::size_t i = 0; i < ready.size(); ++i) {
        if (ready[i].phase == Phase::backward) return i;
      }
      if (ready.size() == 0 || held_ == credit_) return std::nullopt;
      return 0;
    }
    void observe(const Event& event) override {
      if (event.kind == Event::Kind::enter && event.action.phase == Phase::forward) ++held_;
      if (event.kind == Event::Kind::exit && event.action.phase == Phase::backward) --held_;
    }
    /// All that this policy remembers. With it the search can be complete.
    std::optional<std::uint64_t> fingerprint() const override {
      return static_cast<std::uint64_t>(held_);
    }

   private:
    int credit_;
    int held_ = 0;
  };

  int too_many_;
};

TEST(BackwardFirst, IsLegalInEveryOrderOfEverySmallShape) {
  EXPECT_EQ(fuzz::explore_policy(std::make_shared<BackwardFirst>(0)), "");
}

// What the report of an off-by-one looks like. It is not printed: it is expected.
TEST(BackwardFirst, OneForwardTooManyIsFoundAndMadeSmall) {
  const std::string report = fuzz::explore_policy(std::make_shared<BackwardFirst>(1));
  EXPECT_THAT(report, testing::HasSubstr("smallest: -S 2 -M 2 -W 0 --order adaptive, 0 deviations, "
                                         "fails 10 times of 10\n"
                                         "over-credit: 0F1 starts while stage 0 holds 1"));
  EXPECT_THAT(report, testing::HasSubstr("parse_token(\"slc1:"));
}
