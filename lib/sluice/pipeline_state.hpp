// What a pipeline is made of: stages, executors, the running step. The Pipeline object and the coroutine
// of a running step share it, and the step may outlive the object.
//
// `cancel`, `wait_report` and `stall_report` from any thread; everything else from the embedder's one or
// from the step's coroutine. No lock here is ever held across a suspension: nothing here suspends.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <asio/any_io_executor.hpp>

#include <sluice/context_watch.hpp>
#include <sluice/metrics.hpp>
#include <sluice/pipeline_options.hpp>
#include <sluice/plan.hpp>
#include <sluice/probe.hpp>
#include <sluice/stage.hpp>
#include <sluice/step.hpp>
#include <sluice/step_error.hpp>
#include <sluice/step_plans.hpp>
#include <sluice/turn.hpp>
#include <sluice/watchdog.hpp>

namespace sluice::detail {

template <class Value>
class PipelineState {
 public:
  PipelineState(Plan derived, const StageFactory<Value>& factory, PipelineOptions given)
      : plan_(std::make_shared<const Plan>(std::move(derived))),
        options_(std::move(given)),
        plans_(plan_),
        probe_(static_cast<std::size_t>(plan_->ranks)) {
    if (!options_.executors) {
      throw std::invalid_argument(
          "Pipeline: options.executors is empty; give it strand_per_rank(...) or "
          "single_thread(...)");
    }
    if (plan_->ranks < 1 || plan_->order.size() != static_cast<std::size_t>(plan_->ranks)) {
      throw std::invalid_argument(
          "Pipeline: the plan holds no order for its ranks; give it one of derive_plan(config), "
          "with "
          "Detail::actions");
    }
    require_traits();
    for (int r = 0; r < plan_->ranks; ++r) {
      executors_.push_back(options_.executors(RankId(r)));
      paces_.emplace_back(options_.executors.turns());
      watch(asio::query(executors_.back(), asio::execution::context));
    }
    for (int s = 0; s < plan_->stages; ++s) {
      StageContext context;
      context.stage = StageId(s);
      context.stages = plan_->stages;
      context.seed = options_.seed;
      stages_.push_back(factory(context));
      if (!stages_.back()) {
        throw std::invalid_argument(
            fmt::format("Pipeline: the factory has made no stage {} of {}", s, plan_->stages));
      }
    }
    if (!options_.director) options_.director = std::make_shared<LiveDirector>(policy_for(*plan_));
    start_watchdog();
  }

  const Plan& plan() const { return *plan_; }
  Stage<Value>& stage(StageId id) { return *stages_[id.index()]; }
  Director& director() { return *options_.director; }

  /// Before anything is spawned: what would otherwise hang, or reach a context that is no more.
  const asio::any_io_executor& usable_executor() const {
    if (getpid() != process_) {
      throw std::logic_error(
          fmt::format("Pipeline: made in process {}, used in its child {}; the threads did not "
                      "come along: fork before you make executors and pipelines",
                      process_, getpid()));
    }
    if (executors_.empty()) {
      throw std::logic_error(
          "Pipeline: the execution context of its executors has been destroyed; destroy the "
          "pipeline before its context, or make a new one");
    }
    return executors_.front();
  }

  // --- the step's coroutine ---

  std::shared_ptr<Step<Value>> begin(Director& director, Batch<Value> batch, bool training,
                                     std::function<void(MicrobatchId, Value)> on_output) {
    const std::scoped_lock lock(running_mutex_);
    if (running_) {
      throw std::logic_error(
          "Pipeline: a step is running already; await it before starting the next one");
    }
    if (!batch.source) throw std::invalid_argument("Pipeline: the batch has no source");
    if (batch.microbatches < 0) {
      throw std::invalid_argument(fmt::format(
          "Pipeline: the batch has {} microbatches; Batch::microbatches is at least 1, or "
          "0 for the plan's own",
          batch.microbatches));
    }
    if (batch.samples < 1) {
      throw std::invalid_argument(fmt::format(
          "Pipeline: the batch was announced with {} samples; Batch::samples is their number over "
          "all microbatches, at least 1",
          batch.samples));
    }
    StepSetup<Value> setup;
    const StepPlan& plan =
        training ? plans_.training(batch.microbatches) : plans_.forward_only(batch.microbatches);
    setup.plan = plan.plan;
    setup.split = plan.split;
    setup.number = steps_;
    setup.seed = options_.seed;
    setup.training = training;
    setup.keep_events = training && options_.log;
    if (setup.keep_events || options_.metrics) setup.clock = options_.clock;
    setup.executors = executors_;
    setup.carry = options_.carry;
    setup.paces = &paces_;
    setup.check_finite = options_.check_finite;
    setup.probe_determinism = training && options_.probe_determinism;
    if (training) setup.samples_before = accumulated_samples_;
    for (const auto& stage : stages_) setup.stages.push_back(stage.get());
    setup.on_output = std::move(on_output);
    auto step = std::make_shared<Step<Value>>(std::move(setup), director, std::move(batch));
    if (training) ++steps_;
    running_ = step;
    return step;
  }

  /// The next step may begin.
  void end() {
    const std::scoped_lock lock(running_mutex_);
    running_ = nullptr;
  }

  /// A training step has ended: what the next pass of the same global batch builds on.
  void accumulated(const Step<Value>& step, bool applied, bool update) {
    accumulated_samples_ = update || !applied ? 0 : accumulated_samples_ + step.samples();
  }

  /// Null when the batch has no deadline. Throws what the alarm throws.
  std::unique_ptr<Alarm> start_deadline(const std::shared_ptr<Step<Value>>& step) {
    const auto deadline = step->batch().deadline;
    if (deadline.count() <= 0) return nullptr;
    auto alarm = options_.alarm(executors_.front());
    if (!alarm) throw std::invalid_argument("Pipeline: options.alarm has made no alarm");
    alarm->start(deadline, [weak = std::weak_ptr(step), deadline] {
      if (const auto late = weak.lock()) {
        late->fail_as([&] {
          return StepError(
              StepError::Kind::timed_out,
              fmt::format("the step has exceeded its deadline of {} s\n{}",
                          std::chrono::duration<double>(deadline).count(), late->wait_report()));
        });
      }
    });
    return alarm;
  }

  /// Director, log and metrics hear of a step that has ended. What they throw cannot undo it, and is
  /// told as the step's error unless it has one. `director`: null for an evaluation, which has none.
  void tell(Step<Value>& step, const StepResult& result, Director* director, bool applied) {
    const auto error = step.error();
    StepEnd end;
    end.step = step.number();
    end.error = error ? &*error : nullptr;
    end.result = error ? nullptr : &result;
    try {
      if (director != nullptr) director->step_ended(end);
      if (options_.log && step.keeps_events()) {
        std::vector<std::vector<Event>> events;
        for (auto& rank : step.ranks()) events.push_back(std::move(rank->events()));
        options_.log(merge_events(events));
      }
      if (options_.metrics) {
        std::vector<RankMetrics> ranks;
        for (auto& rank : step.ranks()) ranks.push_back(rank->metrics());
        StepMetrics metrics = metrics_of(std::move(ranks));
        metrics.step = step.number();
        metrics.training = step.training();
        metrics.microbatches = step.plan().microbatches;
        if (error) metrics.error = error->kind();
        if (!error) metrics.result = result;
        if (step.training()) metrics.bubble_planned = step.plan().bubble_of_makespan;
        options_.metrics(metrics);
      }
    } catch (...) {
      const auto cause = std::current_exception();
      step.note_as([&] {
        return StepError(StepError::Kind::runtime_failed,
                         fmt::format("the step {}, but its director, log or metrics failed: {}",
                                     applied ? "was applied" : "was not applied", text_of(cause)),
                         std::nullopt, cause);
      });
    }
  }

  // --- any thread ---

  void cancel() {
    if (getpid() != process_) return;  // nothing of it runs here, and its locks may be held for ever
    if (const auto step = running_step()) step->cancel();
  }
  std::string wait_report() const {
    const auto step = running_step();
    return step ? step->wait_report() : std::string();
  }

 private:
  std::shared_ptr<Step<Value>> running_step() const {
    const std::scoped_lock lock(running_mutex_);
    return running_;
  }

  /// Asks to be told when `context` goes.
  void watch(asio::execution_context& context) {
    auto goodbye = std::make_shared<ContextWatch::Goodbye>([this] {
      std::shared_ptr<Step<Value>> step;
      {
        const std::scoped_lock lock(running_mutex_);
        step = std::exchange(running_, nullptr);
      }
      if (step) step->give_up();
      executors_.clear();
    });
    asio::use_service<ContextWatch>(context).add(goodbye);
    goodbyes_.push_back(std::move(goodbye));
  }

  /// What is asked for must not be left undone in silence.
  void require_traits() const {
    if constexpr (!requires(const Value& value) { WireTraits<Value>::clone(value); }) {
      if (options_.probe_determinism) {
        throw std::invalid_argument(
            "Pipeline: options.probe_determinism needs a second copy of each input; give "
            "WireTraits<Value> a `clone`, and `hash`");
      }
    }
    if constexpr (!requires(const Value& value) { WireTraits<Value>::finite(value); }) {
      if (options_.check_finite == FiniteCheck::everything) {
        throw std::invalid_argument(
            "Pipeline: options.check_finite is `everything`, but nothing can tell whether a value "
            "is "
            "finite; give WireTraits<Value> a `finite`, or ask for FiniteCheck::loss");
      }
    }
  }

  void start_watchdog() {
    if (options_.stall_after.count() <= 0) return;
    if (!options_.on_stall) {
      throw std::invalid_argument("Pipeline: options.stall_after is set, options.on_stall is not");
    }
    watchdog_ = std::make_unique<Watchdog>(
        options_.stall_after, [this] { return look(); }, [this] { return stall_report(); },
        options_.on_stall);
  }

  // Both on the watchdog's thread.
  std::int64_t look() {
    const auto step = running_step();
    const std::int64_t progress = step ? step->progress() : -1;
    if (std::exchange(seen_progress_, progress) != progress) ask();
    return progress;
  }
  std::string stall_report() {
    const auto step = running_step();
    if (!step) return {};
    std::string report = step->wait_report();
    if (options_.stall_asks) report += to_string(probe_, step->positions());
    ask();  // for the next report
    return report;
  }

  /// The lock keeps the context of the executors from going in between.
  void ask() {
    const std::scoped_lock lock(running_mutex_);
    if (running_ && options_.stall_asks) running_->ask(probe_);
  }

  std::shared_ptr<const Plan> plan_;
  PipelineOptions options_;
  StepPlans plans_;
  std::vector<asio::any_io_executor> executors_;
  std::vector<Pace> paces_;  // each used by its rank of the running step
  std::vector<std::unique_ptr<Stage<Value>>> stages_;
  std::int64_t steps_ = 0;
  std::int64_t accumulated_samples_ = 0;  // of passes whose gradients wait for an update
  const pid_t process_ = getpid();
  std::vector<std::shared_ptr<ContextWatch::Goodbye>> goodbyes_;
  mutable std::mutex running_mutex_;
  std::shared_ptr<Step<Value>> running_;
  Probe probe_;                                    // with `seen_progress_`: the watchdog's
  std::int64_t seen_progress_ = -1;
  std::unique_ptr<Watchdog> watchdog_;  // last: it looks at all of the above until it has ended
};

}  // namespace sluice::detail
