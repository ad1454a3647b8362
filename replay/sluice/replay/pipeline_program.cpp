#include <sluice/replay/pipeline_program.hpp>

#include <algorithm>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <asio/post.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/replay/plan_model.hpp>
#include <sluice/replay/probe_stage.hpp>

namespace sluice::replay {
namespace {

constexpr std::size_t most_handlers = 1'000'000;
constexpr std::size_t most_remembered = 1U << 28U;  // bytes

/// A live director that holds every event against the rules, and counts what is worth seeing.
class Watch final : public Director {
 public:
  Watch(const Plan& plan, std::shared_ptr<Policy> policy, bool own, const Trouble& trouble,
        Coverage& coverage)
      : policy_(std::move(policy)),
        planned_(!own && plan.order_mode == OrderMode::fixed),
        rules_(plan),
        own_(own),
        trouble_(trouble),
        coverage_(coverage) {}

  std::unique_ptr<RankDirector> for_rank(const Plan& plan, RankId rank, std::int64_t) override {
    return std::make_unique<OfRank>(*this, rank, policy_->for_rank(plan, rank));
  }
  void step_ended(const StepEnd&) override {}

  void reset() {
    // What the ranks of earlier runs have done is kept, as long as that is not too much.
    if (!model_ || model_->size() > most_remembered) model_.emplace(rules_, !own_);
    state_ = model_->start();
    wrong.clear();
    order = 0;
    positions_.assign(state_.size(), 0);
  }
  bool finished() const { return model_->finished(state_); }

  std::string wrong;  ///< the first rule that was broken
  std::uint64_t order = 0;

 private:
  class OfRank final : public RankDirector {
   public:
    OfRank(Watch& watch, RankId rank, std::unique_ptr<RankPolicy> policy)
        : watch_(watch), rank_(rank), policy_(std::move(policy)) {}

    std::size_t choose(const ChoicePoint& point, std::span<const Option> options) override {
      const bool stopping = options.back().kind == Option::Kind::stop;
      const std::size_t ready = options.size() - (stopping ? 2 : 1);
      if (stopping) {
        count(ready > 0 ? Seen::stop_at_hand : Seen::stop_idle);
        if (point.position == 0) count(Seen::stop_unstarted);
        return options.size() - 1;
      }
      if (ready > 1) count(Seen::several_ready);
      const auto chosen = policy_->choose(ReadyView(options.first(ready)));
      if (!chosen) {
        count(ready > 0 ? Seen::waited_at_hand : Seen::waited_for_input);
        return ready;
      }
      if (*chosen < ready &&
          watch_.trouble_.strikes(Fault::Kind::allocation, options[*chosen].action)) {
        throw std::bad_alloc();
      }
      return *chosen;
    }
    void observe(const Event& event) override {
      policy_->observe(event);
      watch_.observe(rank_, event);
    }
    bool wants_hashes() const override { return false; }

   private:
    void count(Seen seen) const { ++watch_.coverage_.counts[static_cast<std::size_t>(seen)]; }

    Watch& watch_;
    RankId rank_;
    std::unique_ptr<RankPolicy> policy_;
  };

  void observe(RankId rank, const Event& event) {
    switch (event.kind) {
      case Event::Kind::enter: check_order(rank, event.action); [[fallthrough]];
      case Event::Kind::exit:
        order = mix(order, static_cast<std::uint64_t>(event.kind) << 62U |
                               static_cast<std::uint64_t>(event.action.phase) << 56U |
                               static_cast<std::uint64_t>(event.action.stage.value) << 28U |
                               static_cast<std::uint64_t>(event.action.mb.value));
        if (!wrong.empty()) return;
        wrong = model_->violation(state_, event);
        if (wrong.empty()) state_[rank.index()] = model_->after(state_, event);
        return;
      case Event::Kind::failed: return count(Seen::failed);
      case Event::Kind::aborted: return count(Seen::aborted);
      case Event::Kind::committed: return count(Seen::committed);
      default: return;
    }
  }
  void check_order(RankId rank, const Action& action) {
    const std::size_t position = positions_[rank.index()]++;
    if (!planned_ || !wrong.empty()) return;
    const auto& planned = rules_.order[rank.index()];
    if (position < planned.size() && planned[position] == action) return;
    wrong = fmt::format("plan-order: rank {} starts {} as its action {}", rank.value,
                        to_string(action), position);
  }
  void count(Seen seen) { ++coverage_.counts[static_cast<std::size_t>(seen)]; }

  std::shared_ptr<Policy> policy_;
  bool planned_;
  Plan rules_;
  bool own_;
  std::optional<PlanModel> model_;
  PlanModel::State state_;
  std::vector<std::size_t> positions_;
  const Trouble& trouble_;
  Coverage& coverage_;
};

/// What the step ended with.
struct Ended {
  bool ended = false;
  std::exception_ptr error;
};

/// Null for any other exception. Lives as long as `error`.
const StepError* step_error_in(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const StepError& thrown) {
    return &thrown;
  } catch (...) {
    return nullptr;
  }
}

/// One pipeline on one context.
class PipelineWorld {
 public:
  PipelineWorld(const Scenario& scenario, const std::shared_ptr<Policy>& policy,
                const WrapDirector& wrap, Coverage& coverage)
      : plan_(derive_plan(scenario.config)),
        expected_(plain_loop(plan_.stages, plan_.microbatches)),
        lanes_(serial_per_rank(context_, plan_.ranks)),
        faults_lane_(context_.make_serial_executor()) {
    trouble_.context = &context_;
    trouble_.faults = scenario.faults;
    trouble_.suspends = scenario.suspends;
    const bool own = policy != nullptr;
    watch_ =
        std::make_shared<Watch>(plan_, own ? policy : policy_for(plan_), own, trouble_, coverage);
    PipelineOptions options;
    options.executors = lanes_;
    options.director = wrap ? wrap(plan_, watch_) : watch_;
    options.alarm = virtual_alarm(context_);
    if (trouble_.has(Fault::Kind::nan)) options.check_finite = FiniteCheck::everything;
    if (links() || trouble_.has(Fault::Kind::delay) || trouble_.has(Fault::Kind::duplicate) ||
        trouble_.has(Fault::Kind::drop)) {
      options.carry = [this](const Action& action, const Delivery& delivery) {
        carry(action, delivery);
      };
    }
    context_.let_timers_compete(links() || trouble_.has(Fault::Kind::deadline) ||
                                trouble_.has(Fault::Kind::delay));
    const StageFactory<Probe> factory = [this](const StageContext& at) {
      auto stage = std::make_unique<ProbeStage>(trouble_, at.stage, plan_.microbatches);
      stages_.push_back(stage.get());
      return stage;
    };
    pipeline_.emplace(plan_, factory, options);
  }

  Outcome run(const DeterministicContext::Pick& pick) {
    context_.set_pick(std::ref(pick));
    step();
    context_.set_pick(nullptr);
    Outcome outcome = judge();
    outcome.order = mix(watch_->order, ended_.error ? 1 : 0);
    if (!outcome.kind.empty() || !ended_.error) return outcome;
    // The pipeline is as good as new: without faults the next step succeeds.
    const auto faults = std::exchange(trouble_.faults, {});
    step();
    if (!ended_.ended || ended_.error) {
      outcome.kind = "next-step";
      outcome.text = "after the failure a step without faults does not succeed: " + error_text();
    }
    trouble_.faults = faults;
    return outcome;
  }

  /// A world in which something is left over is no good for another run.
  bool clean() const { return ended_.ended && context_.idle(); }

 private:
  bool links() const {
    return std::any_of(plan_.costs.link.begin(), plan_.costs.link.end(),
                       [](Time link) { return link > Time(); });
  }

  /// Hand-overs with a time of their own come at any moment after that: the timers compete.
  void carry(const Action& action, const Delivery& delivery) {
    if (trouble_.strikes(Fault::Kind::drop, action)) return;
    const std::size_t edge = action.stage.index() - (action.phase == Phase::forward ? 1 : 0);
    std::int64_t time_ns = plan_.costs.link[edge].millionths;
    if (trouble_.strikes(Fault::Kind::delay, action)) time_ns += long_time_ns;
    if (!trouble_.strikes(Fault::Kind::duplicate, action)) return carry_once(time_ns, delivery);
    const auto twice = [this, delivery, came = std::make_shared<int>(0)] {
      if (++*came == 2) doubled_ = !watch_->finished();
      delivery();
    };
    carry_once(time_ns, twice);
    asio::post(faults_lane_, twice);
  }
  void carry_once(std::int64_t time_ns, const std::function<void()>& arrive) {
    if (time_ns == 0) {
      arrive();
    } else {
      context_.call_after(time_ns, arrive);
    }
  }

  void step() {
    doubled_ = false;
    watch_->reset();
    for (ProbeStage* stage : stages_) stage->reset();
    ended_ = Ended();
    Batch<Probe> batch(source_, plan_.microbatches);
    if (trouble_.has(Fault::Kind::deadline)) batch.deadline = std::chrono::nanoseconds(1);
    pipeline_->async_step(std::move(batch),
                          [this](const std::exception_ptr& error, const StepResult&) {
                            ended_.ended = true;
                            ended_.error = error;
                          });
    std::optional<DeterministicContext::Lane> stopped;
    for (const Fault& fault : trouble_.faults) {
      if (fault.kind == Fault::Kind::cancel) {
        asio::post(faults_lane_, [this] { pipeline_->cancel(); });
      }
      if (fault.kind == Fault::Kind::worker) {
        stopped = plan_.rank_of[fault.action.stage.index()].value + 1;  // serial_per_rank's numbers
        asio::post(faults_lane_, [this, lane = *stopped] { context_.stop_lane(lane); });
      }
    }
    context_.run(most_handlers);
    if (!stopped) return;
    context_.resume_lane(*stopped);
    context_.run(most_handlers);
  }

  Outcome judge() const {
    Outcome outcome;
    const auto wrong = [&outcome](std::string kind, std::string text) {
      outcome.kind = std::move(kind);
      outcome.text = std::move(text);
      return outcome;
    };
    if (!context_.idle()) {
      return wrong("livelock",
                   fmt::format("livelock: {} handlers have run, and there is no end\n{}",
                               most_handlers, pipeline_->wait_report()));
    }
    if (!ended_.ended) {
      return wrong(
          "hang", "hang: nothing can run, and the step has not ended\n" + pipeline_->wait_report());
    }
    if (!watch_->wrong.empty()) {
      return wrong(watch_->wrong.substr(0, watch_->wrong.find(':')), watch_->wrong);
    }
    if (ended_.error) return judge_error(outcome);
    if (!may_succeed()) return wrong("fault-lost", "the step succeeded in spite of its faults");
    if (!watch_->finished())
      return wrong("never-exits", "the step succeeded before its last action");
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (stages_[s]->commits != 1 || stages_[s]->aborts != 0 || stages_[s]->prepared != 1) {
        return wrong("update",
                     fmt::format("stage {}: prepared {} times, applied {}, dropped {}", s,
                                 stages_[s]->prepared, stages_[s]->commits, stages_[s]->aborts));
      }
      if (stages_[s]->applied != expected_[s]) {
        return wrong("numbers", fmt::format("stage {}: its update is not the plain loop's", s));
      }
    }
    return outcome;
  }

  Outcome judge_error(Outcome outcome) const {
    const StepError* const error = step_error_in(ended_.error);
    if (error != nullptr && error->kind() == StepError::Kind::stuck && !allowed(*error)) {
      outcome.kind = "stuck";
      outcome.text = error->what();
      return outcome;
    }
    if (error == nullptr || !allowed(*error)) {
      outcome.kind = "failed";
      outcome.text = error_text();
      return outcome;
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (stages_[s]->commits != 0 || stages_[s]->aborts != 1) {
        outcome.kind = "update";
        outcome.text =
            fmt::format("the step failed ({}), and stage {} has applied {} updates and dropped {}",
                        error_text(), s, stages_[s]->commits, stages_[s]->aborts);
        return outcome;
      }
    }
    return outcome;
  }

  /// Whether some fault explains this error.
  bool allowed(const StepError& error) const {
    return std::any_of(trouble_.faults.begin(), trouble_.faults.end(), [&](const Fault& fault) {
      switch (fault.kind) {
        case Fault::Kind::fails:
        case Fault::Kind::nan:
          return error.kind() == StepError::Kind::stage_failed && error.action() == fault.action;
        case Fault::Kind::allocation: return error.kind() == StepError::Kind::runtime_failed;
        case Fault::Kind::cancel: return error.kind() == StepError::Kind::cancelled;
        case Fault::Kind::deadline: return error.kind() == StepError::Kind::timed_out;
        case Fault::Kind::duplicate:
          return error.kind() == StepError::Kind::runtime_failed && error.action() == fault.action;
        case Fault::Kind::drop:
          return error.kind() == StepError::Kind::stuck && says_lost(error, fault.action);
        default: return false;
      }
    });
  }
  /// Whether the wait graph names the hand-over that is missing.
  static bool says_lost(const StepError& error, const Action& taker) {
    const std::string_view text = error.what();
    const auto at = text.find(to_string(taker) + " (its input has left rank ");
    return at != std::string_view::npos &&
           text.substr(at, text.find(')', at) - at).ends_with("was lost on the way");
  }
  /// Whether every fault may come too late, or harms nobody.
  bool may_succeed() const {
    return !trouble_.has(Fault::Kind::fails) && !trouble_.has(Fault::Kind::nan) &&
           !trouble_.has(Fault::Kind::allocation) && !trouble_.has(Fault::Kind::drop) && !doubled_;
  }
  std::string error_text() const {
    if (!ended_.ended) return "it has not ended";
    return ended_.error ? text_of(ended_.error) : "no error";
  }

  DeterministicContext context_;
  Plan plan_;
  std::vector<std::uint64_t> expected_;
  StageExecutors lanes_;
  DeterministicContext::Executor faults_lane_;
  Trouble trouble_;
  std::shared_ptr<Watch> watch_;
  std::shared_ptr<ProbeSource> source_ = std::make_shared<ProbeSource>();
  std::vector<ProbeStage*> stages_;  // the pipeline's
  std::optional<Pipeline<Probe>> pipeline_;
  Ended ended_;
  bool doubled_ = false;  // an output came again while there was something to run
};

constexpr std::array<std::string_view, seen_count> seen_names{
    "several actions ready", "waited with work at hand",  "waited for input",
    "stopped idle",          "stopped with work at hand", "stopped before its first action",
    "an action failed",      "an update dropped",         "an update applied"};

}  // namespace

std::string_view to_string(Seen seen) { return seen_names[static_cast<std::size_t>(seen)]; }

PipelineProgram pipeline_program(const Scenario& scenario, std::shared_ptr<Policy> policy,
                                 const WrapDirector& wrap) {
  auto coverage = std::make_shared<Coverage>();
  auto world = std::make_shared<std::unique_ptr<PipelineWorld>>();
  const auto make = [scenario, policy = std::move(policy), wrap, coverage] {
    return std::make_unique<PipelineWorld>(scenario, policy, wrap, *coverage);
  };
  *world = make();
  PipelineProgram result;
  result.coverage = coverage;
  result.program = [world, make](const DeterministicContext::Pick& pick) {
    if (!*world) *world = make();
    Outcome outcome = (*world)->run(pick);
    if (!(*world)->clean()) world->reset();
    return outcome;
  };
  return result;
}

}  // namespace sluice::replay
