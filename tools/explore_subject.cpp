#include "explore_subject.hpp"

#include <exception>
#include <utility>

#include "config.hpp"
#include "errors.hpp"

namespace sluice::tools {

class LivePolicy::OfRank final : public RankPolicy {
 public:
  OfRank(LivePolicy& all, std::unique_ptr<RankPolicy> policy)
      : all_(all), policy_(std::move(policy)) {}
  std::optional<std::size_t> choose(const ReadyView& ready) override {
    try {
      return policy_->choose(ready);
    } catch (const std::exception& error) {
      if (all_.error_.empty()) all_.error_ = error.what();
      throw;
    }
  }
  void observe(const Event& event) override { policy_->observe(event); }

 private:
  LivePolicy& all_;
  std::unique_ptr<RankPolicy> policy_;
};

std::unique_ptr<RankPolicy> LivePolicy::for_rank(const Plan& plan, RankId rank) {
  return std::make_unique<OfRank>(*this, child_.for_rank(plan, rank));
}

Subject read_subject(const ExploreCommandOptions& options) {
  const auto overrides = options.shape.overrides();
  Subject subject;
  Config config =
      options.config ? parse_config(read_file(*options.config), options.config->string(), overrides)
                     : parse_config("", "", overrides);
  if (config.policy && config.policy->at_run_time) {
    subject.policy_place = config.places.at("policy");
    subject.command = config.policy->command;
    try {
      subject.policy = std::make_shared<LivePolicy>(subject.command);
    } catch (const std::exception& error) {
      throw UsageError(subject.policy_place, error.what());
    }
    // A schedule that is a list says where the stages are and which backwards are split, no more.
    if (!is_listed(config.plan.schedule) && !config.plan.custom) {
      config.plan.order = OrderMode::adaptive;
    }
  } else {
    config = read_config(options.config, overrides);
  }
  plan_of(config);  // what makes it impossible is told with its place
  subject.scenario.config = config.plan;
  subject.scenario.suspends = options.suspend;
  return subject;
}

Subject subject_of(const ExploreCommandOptions& options, replay::Exploring strategy) {
  if (strategy != replay::Exploring::swarm) return read_subject(options);
  if (options.config || !options.shape.overrides().empty()) {
    throw UsageError("--strategy swarm",
                     "given beside a configuration or a shape: swarm draws its own; leave them "
                     "out, or take another strategy");
  }
  Subject subject;
  subject.scenario.config.stages = subject.scenario.config.microbatches = 1;
  return subject;
}

}  // namespace sluice::tools
