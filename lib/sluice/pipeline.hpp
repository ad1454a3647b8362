// Pipeline<Value>: what an embedder holds.
//
// Made of a plan, a factory for the S stages and an executor; then one awaitable call a step. A step is
// all or nothing: weights change only after all M microbatches have retired, every stage has counted M
// contributions, and every stage has prepared its update. On any failure the step ends with one
// StepError, nothing is applied, and the pipeline is ready for the next step.
//
// It starts no thread, installs no handler and prints nothing. One step at a time. From any thread:
// `cancel`, `wait_report`, and the cancellation slot of a call's completion token, which may be emitted
// before the step has begun, while it runs and after it has ended. Everything else from one thread.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <asio/async_result.hpp>

#include <sluice/call.hpp>
#include <sluice/pipeline_options.hpp>
#include <sluice/pipeline_state.hpp>
#include <sluice/plan.hpp>
#include <sluice/stage.hpp>
#include <sluice/step_error.hpp>
#include <sluice/step_life.hpp>
#include <sluice/step_result.hpp>
#include <sluice/stop_request.hpp>

namespace sluice {

template <class Value>
class Pipeline {
  static_assert(std::is_default_constructible_v<Value> && std::is_move_constructible_v<Value> &&
                    std::is_move_assignable_v<Value>,
                "a value of a pipeline is default constructible and movable");

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
  /// StepError, or, of a step that has not begun: std::logic_error when another is running already,
  /// std::invalid_argument for a batch that cannot be, what the director throws. Throws std::logic_error
  /// at once in a forked child, and when the executors' context has gone.
  template <asio::completion_token_for<void(std::exception_ptr, StepResult)> Token>
  auto async_step(Batch<Value> batch, Token&& token) {
    auto stop = std::make_shared<detail::StopRequest>();
    detail::StartCall start(state_->usable_executor(), stop);
    auto coroutine = detail::train(state_, std::move(batch), std::move(stop));
    return asio::async_initiate<Token, void(std::exception_ptr, StepResult)>(
        std::move(start), token, std::move(coroutine));
  }

  /// Runs one batch forward only; weights stay as they are. `on_output` receives the last stage's
  /// values as they retire, in ascending order, on the executor of the rank that owns that stage.
  template <asio::completion_token_for<void(std::exception_ptr, StepResult)> Token>
  auto async_evaluate(Batch<Value> batch, std::function<void(MicrobatchId, Value)> on_output,
                      Token&& token) {
    auto stop = std::make_shared<detail::StopRequest>();
    detail::StartCall start(state_->usable_executor(), stop);
    auto coroutine =
        detail::evaluate(state_, std::move(batch), std::move(on_output), std::move(stop));
    return asio::async_initiate<Token, void(std::exception_ptr, StepResult)>(
        std::move(start), token, std::move(coroutine));
  }

  /// Ends the running step, if there is one, as cancelled; a step that was called and has not begun yet is not
  /// ended by it, but by its cancellation slot. From any thread.
  void cancel() { state_->cancel(); }

  /// Who waits for what in the running step, a line a rank; empty when none runs. From any thread.
  std::string wait_report() const { return state_->wait_report(); }

  const Plan& plan() const { return state_->plan(); }
  /// Between steps only. Owned by the pipeline.
  Stage<Value>& stage(StageId id) { return state_->stage(id); }

 private:
  using State = detail::PipelineState<Value>;

  std::shared_ptr<State> state_;
};

}  // namespace sluice
