// Pipeline<Value>: what an embedder holds.
//
// Made of a plan, a factory for the S stages and an executor; then one awaitable call a step. A step is
// all or nothing: weights change only after all M microbatches have retired, every stage has counted M
// contributions, and every stage has prepared its update. On any failure the step ends with one
// StepError, nothing is applied, and the pipeline is ready for the next step.
//
// It starts no thread, installs no handler and prints nothing. One step at a time; `cancel` may be
// called from any thread, everything else from one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/this_coro.hpp>

#include <sluice/context_watch.hpp>
#include <sluice/director.hpp>
#include <sluice/event.hpp>
#include <sluice/executors.hpp>
#include <sluice/intake.hpp>
#include <sluice/metrics.hpp>
#include <sluice/plan.hpp>
#include <sluice/rank_loop.hpp>
#include <sluice/split_table.hpp>
#include <sluice/stage.hpp>
#include <sluice/step.hpp>
#include <sluice/step_error.hpp>
#include <sluice/watchdog.hpp>

namespace sluice {

struct PipelineOptions {
  StageExecutors executors;            ///< required
  std::shared_ptr<Director> director;  ///< null: live, with the policy that the plan names
  std::uint64_t seed = 0;              ///< for the keyed random sources
  /// An action whose output holds NaN or Inf fails (WireTraits::finite), and so does a loss.
  bool check_finite = false;
  /// Training forwards of stages that promise bits run twice, and fail when the outputs' hashes differ
  /// (WireTraits::clone). Doubles the forwards: for a first step, not for a run.
  bool probe_determinism = false;
  /// Called at the end of each training step, normal or failed, with its events in causal order, on
  /// the executor of the rank that owns stage 0. Empty: events are not kept.
  std::function<void(std::span<const Event>)> log;
  /// Called in the same place with how the ranks spent the step.
  std::function<void(const StepMetrics&)> metrics;
  /// Nanoseconds of a steady clock, read by every rank; only differences mean anything. Read only for
  /// `log` and `metrics`; empty: events carry no time.
  std::function<std::int64_t()> clock = [] {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  };
  /// For deadlines. On the deterministic executor use one of its own virtual time.
  AlarmFactory alarm = steady_alarm;
  /// When nothing has moved in a running step for this long, `on_stall` is told who waits for what; the
  /// run goes on. Zero: no watchdog, and no thread.
  std::chrono::nanoseconds stall_after{0};
  std::function<void(const std::string&)> on_stall;
};

/// The same pipeline without backwards: every stage's forwards, in the plan's order.
Plan forward_only(const Plan& plan);

template <class Value>
class Pipeline {
 public:
  /// Makes all stages, on this thread. Throws what the factory throws, and std::invalid_argument when
  /// the options lack an executor.
  Pipeline(Plan plan, const StageFactory<Value>& factory, PipelineOptions options)
      : state_(std::make_shared<State>(std::move(plan), factory, std::move(options))) {}

  /// Ends a running step as cancelled and does not wait for it: the step keeps the stages alive until
  /// its last action has returned. (It waits for the watchdog's thread, when there is one.)
  ~Pipeline() {
    if (state_) state_->cancel();
  }
  Pipeline(Pipeline&&) noexcept = default;
  Pipeline& operator=(Pipeline&&) = delete;

  /// Trains on one batch. Completes with void(std::exception_ptr, StepResult); the exception is a
  /// StepError, or std::logic_error when a step is running already. Throws std::logic_error at once in
  /// a forked child, and when the executors' context has gone.
  template <asio::completion_token_for<void(std::exception_ptr, StepResult)> Token>
  auto async_step(Batch<Value> batch, Token&& token) {
    return asio::co_spawn(state_->usable_executor(), train(state_, std::move(batch)),
                          std::forward<Token>(token));
  }

  /// Runs one batch forward only; weights stay as they are. `on_output` receives the last stage's
  /// values as they retire, in ascending order, on the executor of the rank that owns that stage.
  template <asio::completion_token_for<void(std::exception_ptr, StepResult)> Token>
  auto async_evaluate(Batch<Value> batch, std::function<void(MicrobatchId, Value)> on_output,
                      Token&& token) {
    return asio::co_spawn(state_->usable_executor(),
                          evaluate(state_, std::move(batch), std::move(on_output)),
                          std::forward<Token>(token));
  }

  /// Ends the running step, if there is one, as cancelled. From any thread.
  void cancel() { state_->cancel(); }

  /// Who waits for what in the running step, a line a rank; empty when none runs. From any thread.
  std::string wait_report() const { return state_->wait_report(); }

  const Plan& plan() const { return *state_->plan; }
  /// Between steps only. Owned by the pipeline.
  Stage<Value>& stage(StageId id) { return *state_->stages[id.index()]; }

 private:
  using Step = detail::Step<Value>;
  struct State;

  static asio::awaitable<StepResult> train(std::shared_ptr<State> state, Batch<Value> batch);
  static asio::awaitable<StepResult> evaluate(std::shared_ptr<State> state, Batch<Value> batch,
                                              std::function<void(MicrobatchId, Value)> on_output);

  std::shared_ptr<State> state_;
};

/// Shared with the running step, which may outlive the Pipeline object.
template <class Value>
struct Pipeline<Value>::State {
  State(Plan derived, const StageFactory<Value>& factory, PipelineOptions given)
      : plan(std::make_shared<const Plan>(std::move(derived))), options(std::move(given)) {
    if (!options.executors) {
      throw std::invalid_argument(
          "Pipeline: options.executors is empty; give it strand_per_rank(...) or "
          "single_thread(...)");
    }
    for (int r = 0; r < plan->ranks; ++r) {
      executors.push_back(options.executors(RankId(r)));
      watch(asio::query(executors.back(), asio::execution::context));
    }
    for (int s = 0; s < plan->stages; ++s) {
      StageContext context;
      context.stage = StageId(s);
      context.stages = plan->stages;
      context.seed = options.seed;
      stages.push_back(factory(context));
      if (!stages.back()) {
        throw std::invalid_argument(
            fmt::format("Pipeline: the factory has made no stage {} of {}", s, plan->stages));
      }
    }
    if (options.stall_after.count() > 0) {
      if (!options.on_stall) {
        throw std::invalid_argument(
            "Pipeline: options.stall_after is set, options.on_stall is not");
      }
      watchdog = std::make_unique<Watchdog>(
          options.stall_after,
          [this] {
            const auto step = running_step();
            return step ? step->progress() : -1;
          },
          [this] { return wait_report(); }, options.on_stall);
    }
    if (!options.director) options.director = std::make_shared<LiveDirector>(policy_for(*plan));
  }

  /// Asks to be told when `context` goes.
  void watch(asio::execution_context& context) {
    auto goodbye = std::make_shared<detail::ContextWatch::Goodbye>([this] {
      if (running) running->give_up();
      running = nullptr;
      executors.clear();
    });
    asio::use_service<detail::ContextWatch>(context).add(goodbye);
    goodbyes.push_back(std::move(goodbye));
  }

  /// Before anything is spawned: what would otherwise hang, or reach a context that is no more.
  const asio::any_io_executor& usable_executor() const {
    if (getpid() != process) {
      throw std::logic_error(
          fmt::format("Pipeline: made in process {}, used in its child {}; the threads did not "
                      "come along: fork "
                      "before you make executors and pipelines",
                      process, getpid()));
    }
    if (executors.empty()) {
      throw std::logic_error(
          "Pipeline: the execution context of its executors has been destroyed; destroy the "
          "pipeline before its context, or make a new one");
    }
    return executors.front();
  }

  std::shared_ptr<Step> begin(Director& director, Batch<Value> batch, bool training,
                              std::function<void(MicrobatchId, Value)> on_output) {
    const std::scoped_lock lock(running_mutex);
    if (running) {
      throw std::logic_error(
          "Pipeline: a step is running already; await it before starting the next one");
    }
    if (!batch.source) throw std::invalid_argument("Pipeline: the batch has no source");
    if (batch.samples < 1) {
      throw std::invalid_argument(fmt::format(
          "Pipeline: the batch was announced with {} samples; Batch::samples is their number over "
          "all microbatches, at least 1",
          batch.samples));
    }
    detail::StepSetup<Value> setup;
    const Shape& shape =
        shape_for(batch.microbatches == 0 ? plan->microbatches : batch.microbatches);
    setup.plan = training ? shape.plan : shape.forward_plan;
    setup.split = shape.split;
    setup.number = steps;
    setup.seed = options.seed;
    setup.training = training;
    setup.keep_events = training && options.log;
    if (training && (options.log || options.metrics)) setup.clock = options.clock;
    setup.executors = executors;
    setup.check_finite = options.check_finite;
    setup.probe_determinism = training && options.probe_determinism;
    if (training) setup.samples_before = accumulated_samples;
    for (const auto& stage : stages) setup.stages.push_back(stage.get());
    setup.on_output = std::move(on_output);
    auto step = std::make_shared<Step>(std::move(setup), director, std::move(batch));
    if (training) ++steps;
    running = step;
    return step;
  }

  void end() {
    const std::scoped_lock lock(running_mutex);
    running = nullptr;
  }

  /// Null when the batch has no deadline. Throws what the alarm throws; then no step is running.
  std::unique_ptr<Alarm> start_deadline(const std::shared_ptr<Step>& step) {
    const auto deadline = step->batch().deadline;
    if (deadline.count() <= 0) return nullptr;
    try {
      auto alarm = options.alarm(executors.front());
      if (!alarm) throw std::invalid_argument("Pipeline: options.alarm has made no alarm");
      alarm->start(deadline, [weak = std::weak_ptr(step), deadline] {
        if (const auto late = weak.lock()) {
          late->fail(StepError(
              StepError::Kind::timed_out,
              fmt::format("the step has exceeded its deadline of {} s\n{}",
                          std::chrono::duration<double>(deadline).count(), late->wait_report())));
        }
      });
      return alarm;
    } catch (...) {
      end();
      throw;
    }
  }

  void cancel() {
    if (const auto step = running_step()) {
      step->fail(StepError(StepError::Kind::cancelled, "the step was cancelled"));
    }
  }

  std::shared_ptr<Step> running_step() {
    const std::scoped_lock lock(running_mutex);
    return running;
  }

  /// The director's last word before the update. May end the step.
  void ask_before_commit(Step& step) {
    if (step.stopping()) return;
    try {
      options.director->before_commit(step.number());
    } catch (...) {
      step.fail(StepError::from_runtime(std::current_exception()));
    }
  }

  /// Director, log and metrics hear of a step that has ended. What they throw cannot undo it, and is told
  /// as the step's error unless it has one.
  void tell(Step& step, const StepResult& result, bool applied) {
    const auto error = step.error();
    StepEnd end;
    end.step = step.number();
    end.error = error ? &*error : nullptr;
    end.result = error ? nullptr : &result;
    try {
      options.director->step_ended(end);
      if (options.log) {
        std::vector<std::vector<Event>> events;
        for (auto& rank : step.ranks()) events.push_back(std::move(rank->events()));
        options.log(merge_events(events));
      }
      if (options.metrics) {
        std::vector<RankMetrics> ranks;
        for (auto& rank : step.ranks()) ranks.push_back(rank->metrics());
        options.metrics(step_metrics(step.number(), error.has_value(),
                                     step.plan().bubble_of_makespan, std::move(ranks)));
      }
    } catch (...) {
      step.note(StepError(StepError::Kind::runtime_failed,
                          fmt::format("the step {}, but its director, log or metrics failed: {}",
                                      applied ? "was applied" : "was not applied",
                                      text_of(std::current_exception())),
                          std::nullopt, std::current_exception()));
    }
  }

  std::string wait_report() {
    const auto step = running_step();
    return step ? step->wait_report() : std::string();
  }

  /// What a step of M microbatches needs of the plan.
  struct Shape {
    std::shared_ptr<const Plan> plan;
    std::shared_ptr<const Plan> forward_plan;
    std::shared_ptr<const detail::SplitTable> split;
  };

  /// Derived when it is first asked for. Throws ConfigError when the plan does not exist for this M.
  const Shape& shape_for(int microbatches) {
    const auto known = shapes.find(microbatches);
    if (known != shapes.end()) return known->second;
    Shape shape;
    shape.plan = plan;
    if (microbatches != plan->microbatches) {
      PlanConfig config = plan->config;
      config.microbatches = microbatches;
      shape.plan = std::make_shared<const Plan>(derive_plan(config));
    }
    shape.forward_plan = std::make_shared<const Plan>(forward_only(*shape.plan));
    shape.split = std::make_shared<const detail::SplitTable>(*shape.plan);
    if (shapes.size() == most_shapes) shapes.clear();  // a batch ramp comes by each M once
    return shapes.emplace(microbatches, std::move(shape)).first->second;
  }

  static constexpr std::size_t most_shapes = 8;

  std::shared_ptr<const Plan> plan;
  std::map<int, Shape> shapes;
  PipelineOptions options;
  std::vector<asio::any_io_executor> executors;
  std::vector<std::unique_ptr<Stage<Value>>> stages;
  std::int64_t steps = 0;
  std::int64_t accumulated_samples = 0;  // of passes whose gradients wait for an update
  const pid_t process = getpid();
  std::vector<std::shared_ptr<detail::ContextWatch::Goodbye>> goodbyes;
  std::mutex running_mutex;
  std::shared_ptr<Step> running;
  std::unique_ptr<Watchdog> watchdog;  // last: it looks at all of the above until it has ended
};

namespace detail {

/// First phase of the update, on the rank's executor.
template <class Value>
void prepare_update(Step<Value>& step, Rank<Value>& rank) {
  for (auto& owned : rank.stages) {
    try {
      if (owned.contributions.count() != step.plan().microbatches) {
        throw std::logic_error(fmt::format("it counted {} gradient contributions of {}",
                                           owned.contributions.count(), step.plan().microbatches));
      }
      owned.stage->prepare_update(step.number());
    } catch (...) {
      step.fail(StepError::from_update(owned.id, std::current_exception()));
      return;
    }
  }
}

/// Second phase, on the rank's executor: all stages of all ranks commit, or all abort.
template <class Value>
void conclude_update(Step<Value>& step, Rank<Value>& rank, bool commit) {
  for (auto& owned : rank.stages) commit ? owned.stage->commit() : owned.stage->abort();
  try {
    for (auto& owned : rank.stages) {
      std::optional<std::uint64_t> hash;
      const bool bits = owned.stage->determinism() == Determinism::bitwise;
      if (commit && bits && rank.wants_hashes()) hash = owned.stage->state_hash();
      rank.updated(commit ? Event::Kind::committed : Event::Kind::aborted, owned.id, hash);
    }
  } catch (...) {  // too late to undo: the step says so, and how its weights stand
    step.note(StepError(
        StepError::Kind::runtime_failed,
        fmt::format("rank {}: {}, but its director failed to note it: {}", rank.id().value,
                    commit ? "the update was applied" : "nothing was applied",
                    text_of(std::current_exception())),
        std::nullopt, std::current_exception()));
  }
}

template <class Value>
void Step<Value>::start() {
  const auto self = this->shared_from_this();
  // Everyone counts as awake before anyone can fall asleep.
  for (std::size_t i = 0; i < ranks_.size(); ++i) woken();
  woken();
  for (auto& rank : ranks_) {
    try {
      spawn(*rank, rank_loop(self, *rank));
    } catch (...) {
      fail(StepError::from_runtime(std::current_exception()));
      end_rank(*rank);
    }
  }
  try {
    spawn(rank_of(StageId(0)), intake(self));
  } catch (...) {
    fail(StepError::from_runtime(std::current_exception()));
    rested();
  }
}

}  // namespace detail

template <class Value>
asio::awaitable<StepResult> Pipeline<Value>::train(std::shared_ptr<State> state,
                                                   Batch<Value> batch) {
  // A cancelled step is told so by its ranks, not by an exception out of the next await.
  co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
  co_await asio::this_coro::throw_if_cancelled(false);

  const bool update = batch.update;
  const auto step = state->begin(*state->options.director, std::move(batch), true, {});
  const auto alarm = state->start_deadline(step);
  co_await step->all_ended();
  if (alarm) alarm->cancel();

  std::function<void(detail::RankCore&)> prepare = [step](detail::RankCore& rank) {
    detail::prepare_update(*step, static_cast<detail::Rank<Value>&>(rank));
  };
  if (update && !step->stopping()) co_await step->on_every_rank(std::move(prepare));

  state->ask_before_commit(*step);
  const bool commit = step->decide();
  std::function<void(detail::RankCore&)> conclude = [step, commit](detail::RankCore& rank) {
    detail::conclude_update(*step, static_cast<detail::Rank<Value>&>(rank), commit);
  };
  if (update || !commit) co_await step->on_every_rank(std::move(conclude));
  state->accumulated_samples = update || !commit ? 0 : state->accumulated_samples + step->samples();

  state->end();  // whatever the callbacks below throw, the next step may start
  StepResult result = step->result();
  state->tell(*step, result, commit);
  if (const auto error = step->error()) throw StepError(*error);
  co_return result;
}

template <class Value>
asio::awaitable<StepResult> Pipeline<Value>::evaluate(
    std::shared_ptr<State> state, Batch<Value> batch,
    std::function<void(MicrobatchId, Value)> on_output) {
  co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
  co_await asio::this_coro::throw_if_cancelled(false);

  // Forwards alone leave nothing to choose that could change a number: nothing is recorded.
  LiveDirector director(std::make_shared<FixedOrder>());
  const auto step = state->begin(director, std::move(batch), false, std::move(on_output));
  const auto alarm = state->start_deadline(step);
  co_await step->all_ended();
  if (alarm) alarm->cancel();
  // Stages keep nothing of a forward that no backward follows, and gradients that earlier passes have
  // accumulated are not this step's to drop.
  step->decide();
  state->end();
  const auto error = step->error();
  if (error) throw StepError(*error);
  co_return step->result();
}

}  // namespace sluice
