// The classic mistake: a gate that is tested on every turn instead of latched.
#pragma once

#include <memory>
#include <optional>

#include <sluice/policy.hpp>

namespace sluice::test {

class NaiveGate final : public Policy {
 public:
  std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override {
    const bool last = rank.value == plan.stages - 1;
    return std::make_unique<OfRank>(plan.credits[rank.index()], last ? plan.gate : 0);
  }

 private:
  class OfRank final : public RankPolicy {
   public:
    OfRank(int credit, int gate) : credit_(credit), gate_(gate) {}

    std::optional<std::size_t> choose(const ReadyView& ready) override {
      for (std::size_t i = 0; i < ready.size(); ++i) {
        if (ready[i].phase == Phase::forward ? held_ < credit_ : held_ >= gate_) return i;
      }
      return std::nullopt;
    }
    void observe(const Event& event) override {
      if (event.kind == Event::Kind::enter && event.action.phase == Phase::forward) ++held_;
      if (event.kind == Event::Kind::exit && event.action.phase == Phase::backward) --held_;
    }
    std::optional<std::uint64_t> fingerprint() const override {
      return static_cast<std::uint64_t>(held_);
    }

   private:
    int credit_;
    int gate_;
    int held_ = 0;
  };
};

}  // namespace sluice::test
