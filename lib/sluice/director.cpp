#include <sluice/director.hpp>

#include <utility>

namespace sluice {
namespace {

class LiveRankDirector final : public RankDirector {
 public:
  explicit LiveRankDirector(std::unique_ptr<RankPolicy> policy) : policy_(std::move(policy)) {}

  std::size_t choose(const ChoicePoint&, std::span<const Option> options) override {
    if (options.back().kind == Option::Kind::stop) return options.size() - 1;
    const std::size_t wait = options.size() - 1;
    return policy_->choose(ReadyView(options.first(wait))).value_or(wait);
  }

  void observe(const Event& event) override { policy_->observe(event); }

 private:
  std::unique_ptr<RankPolicy> policy_;
};

}  // namespace

std::unique_ptr<RankDirector> LiveDirector::for_rank(const Plan& plan, RankId rank, std::int64_t) {
  return std::make_unique<LiveRankDirector>(policy_->for_rank(plan, rank));
}

}  // namespace sluice
