// The sluice command with a mistake in it: linked so that every call of policy_for comes here. For the tests
// of what explore does when an order fails, which with the policies of the library none does.
//
// SLUICE_PLANTED names the mistake: `gate`, tested on every turn; `hasty`, the first rank of three or more fails
// when a backward comes back before it has started three forwards, which only happens when the others are
// faster.
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <sluice/policy.hpp>

#include "naive_gate.hpp"

namespace sluice::test {
namespace {

class Hasty final : public Policy {
  class OfRank final : public RankPolicy {
   public:
    explicit OfRank(std::unique_ptr<RankPolicy> law) : law_(std::move(law)) {}
    std::optional<std::size_t> choose(const ReadyView& ready) override {
      const bool backward = ready.size() > 0 && ready[ready.size() - 1].phase == Phase::backward;
      if (backward && forwards_ < 3) throw std::logic_error("planted: a backward came too soon");
      return law_->choose(ready);
    }
    void observe(const Event& event) override {
      if (event.kind == Event::Kind::enter && event.action.phase == Phase::forward) ++forwards_;
      law_->observe(event);
    }

   private:
    std::unique_ptr<RankPolicy> law_;
    int forwards_ = 0;
  };
  std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override {
    auto law = Adaptive().for_rank(plan, rank);
    if (plan.ranks < 3 || plan.microbatches < 3 || rank != RankId(0)) return law;
    return std::make_unique<OfRank>(std::move(law));
  }
};

}  // namespace

std::shared_ptr<Policy> planted_policy_for(const Plan& plan) __asm__(
    "__wrap__ZN6sluice10policy_forERKNS_4PlanE");

std::shared_ptr<Policy> planted_policy_for(const Plan& plan) {
  const char* named = std::getenv("SLUICE_PLANTED");
  const std::string_view mistake = named == nullptr ? "" : named;
  if (mistake == "gate") return std::make_shared<NaiveGate>();
  if (mistake == "hasty") return std::make_shared<Hasty>();
  if (plan.order_mode == OrderMode::adaptive) return std::make_shared<Adaptive>();
  return std::make_shared<FixedOrder>();
}

}  // namespace sluice::test
