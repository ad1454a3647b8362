// The life of a step, top to bottom: begin, everybody at work, prepare, decide, commit or abort, tell.
//
// One coroutine a call of `async_step` or `async_evaluate`, on the executor of rank 0. It keeps the
// pipeline's state alive; nothing in it holds a lock.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include <asio/awaitable.hpp>

#include <sluice/intake.hpp>
#include <sluice/pipeline_state.hpp>
#include <sluice/rank_loop.hpp>
#include <sluice/stop_request.hpp>
#include <sluice/update.hpp>

namespace sluice::detail {

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

template <class Value>
asio::awaitable<StepResult> train(std::shared_ptr<PipelineState<Value>> state, Batch<Value> batch,
                                  std::shared_ptr<StopRequest> stop) {
  const bool update = batch.update;
  const auto step = state->begin(state->director(), std::move(batch), true, {});
  stop->pass_on_to(step);
  const auto alarm = state->start_deadline(step);
  co_await step->all_ended();
  if (alarm) alarm->cancel();

  std::function<void(RankCore&)> prepare = [step](RankCore& rank) {
    prepare_update(*step, static_cast<Rank<Value>&>(rank));
  };
  if (update && !step->stopping()) co_await step->on_every_rank(std::move(prepare));

  state->ask_before_commit(*step);
  const bool commit = step->decide();  // from here on it is too late to cancel
  std::function<void(RankCore&)> conclude = [step, commit](RankCore& rank) {
    conclude_update(*step, static_cast<Rank<Value>&>(rank), commit);
  };
  if (update || !commit) co_await step->on_every_rank(std::move(conclude));
  state->accumulated(*step, commit, update);

  state->end();  // whatever the callbacks below throw, the next step may start
  const StepResult result = step->result();
  state->tell(*step, result, &state->director(), commit);
  if (const auto error = step->error()) throw StepError(*error);
  co_return result;
}

template <class Value>
asio::awaitable<StepResult> evaluate(std::shared_ptr<PipelineState<Value>> state,
                                     Batch<Value> batch,
                                     std::function<void(MicrobatchId, Value)> on_output,
                                     std::shared_ptr<StopRequest> stop) {
  // Forwards alone leave nothing to choose that could change a number: nothing is recorded.
  LiveDirector director(std::make_shared<FixedOrder>());
  const auto step = state->begin(director, std::move(batch), false, std::move(on_output));
  stop->pass_on_to(step);
  const auto alarm = state->start_deadline(step);
  co_await step->all_ended();
  if (alarm) alarm->cancel();
  // Stages keep nothing of a forward that no backward follows, and gradients that earlier passes have
  // accumulated are not this step's to drop.
  step->decide();
  state->end();
  const StepResult result = step->result();
  state->tell(*step, result, nullptr, false);
  if (const auto error = step->error()) throw StepError(*error);
  co_return result;
}

}  // namespace sluice::detail
