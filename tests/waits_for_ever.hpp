// A policy that follows the plan and then waits for ever, so that the step is stuck.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <sluice/policy.hpp>

namespace sluice::test {

/// Every rank waits behind its fifth action.
class WaitsForEver final : public Policy {
 public:
  std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override {
    return std::make_unique<OfRank>(FixedOrder().for_rank(plan, rank));
  }

 private:
  class OfRank final : public RankPolicy {
   public:
    explicit OfRank(std::unique_ptr<RankPolicy> planned) : planned_(std::move(planned)) {}

    std::optional<std::size_t> choose(const ReadyView& ready) override {
      return left_ > 0 ? planned_->choose(ready) : std::nullopt;
    }
    void observe(const Event& event) override {
      left_ -= event.kind == Event::Kind::enter ? 1 : 0;
      planned_->observe(event);
    }

   private:
    std::unique_ptr<RankPolicy> planned_;
    int left_ = 5;
  };
};

}  // namespace sluice::test
