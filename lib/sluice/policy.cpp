#include <sluice/policy.hpp>

#include <algorithm>

#include <sluice/law.hpp>

namespace sluice {
namespace {

class FixedRank final : public RankPolicy {
 public:
  explicit FixedRank(std::span<const Action> order) : order_(order) {}

  std::optional<std::size_t> choose(const ReadyView& ready) override {
    if (next_ == order_.size()) return std::nullopt;
    return ready.find(order_[next_]);
  }

  void observe(const Event& event) override {
    if (event.kind == Event::Kind::enter) ++next_;
  }

  std::optional<std::uint64_t> fingerprint() const override { return next_; }

 private:
  std::span<const Action> order_;  // in the plan
  std::size_t next_ = 0;
};

class AdaptiveRank final : public RankPolicy {
 public:
  AdaptiveRank(StageId stage, law::LawStage law)
      : law_(law),
        forward_(stage, Phase::forward, MicrobatchId(0)),
        backward_(stage, Phase::backward, MicrobatchId(0)) {}

  std::optional<std::size_t> choose(const ReadyView& ready) override {
    const auto forward = ready.find(forward_);
    const auto backward = ready.find(backward_);
    law::Offer offer;
    offer.forward = forward.has_value();
    offer.backward = backward.has_value();
    const auto phase = law_.next(offer);
    if (!phase) return std::nullopt;
    return *phase == Phase::forward ? forward : backward;
  }

  void observe(const Event& event) override {
    if (event.kind == Event::Kind::enter && event.action.phase == Phase::forward) {
      law_.forward_started();
      forward_.mb = forward_.mb.next();
    } else if (event.kind == Event::Kind::exit && event.action.phase == Phase::backward) {
      law_.released();
      backward_.mb = backward_.mb.next();
    }
  }

  /// What is held is the difference of the two.
  std::optional<std::uint64_t> fingerprint() const override {
    const auto bits = [](auto value) { return static_cast<std::uint64_t>(value); };
    return bits(forward_.mb.value) << 32 | bits(backward_.mb.value) << 1 | bits(law_.open());
  }

 private:
  law::LawStage law_;
  // Both phases go in ascending microbatch order; these are the next of each.
  Action forward_;
  Action backward_;
};

}  // namespace

std::optional<std::size_t> ReadyView::find(const Action& action) const {
  const auto found = std::lower_bound(
      runnable_.begin(), runnable_.end(), action,
      [](const Option& option, const Action& wanted) { return option.action < wanted; });
  if (found == runnable_.end() || found->action != action) return std::nullopt;
  return static_cast<std::size_t>(found - runnable_.begin());
}

std::unique_ptr<RankPolicy> FixedOrder::for_rank(const Plan& plan, RankId rank) {
  return std::make_unique<FixedRank>(plan.order[rank.index()]);
}

std::unique_ptr<RankPolicy> Adaptive::for_rank(const Plan& plan, RankId rank) {
  // One stage a rank: the ids coincide.
  const StageId stage(rank.value);
  const bool last = stage.value == plan.stages - 1;
  return std::make_unique<AdaptiveRank>(
      stage, law::LawStage(plan.credits[stage.index()], last ? plan.gate : 0));
}

std::shared_ptr<Policy> policy_for(const Plan& plan) {
  if (plan.order_mode == OrderMode::adaptive) return std::make_shared<Adaptive>();
  return std::make_shared<FixedOrder>();
}

}  // namespace sluice
