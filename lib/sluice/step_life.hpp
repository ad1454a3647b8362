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
#include <sluice/messages.hpp>
#include <sluice/pipeline_state.hpp>
#include <sluice/rank_loop.hpp>
#include <sluice/stop_request.hpp>
#include <sluice/update.hpp>

namespace sluice::detail {

/// Lets the next step begin, at the latest when this goes.
template <class Value>
class Ending {
 public:
  explicit Ending(PipelineState<Value>& state) : state_(&state) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() { now(); }
  void now() {
    if (auto* state = std::exchange(state_, nullptr)) state->end();
  }

 private:
  PipelineState<Value>* state_;
};

template <class Value>
void Step<Value>::start() {
  // Everyone counts as awake before anyone can fall asleep.
  for (std::size_t i = 0; i < ranks_.size(); ++i) woken();
  woken();
  for (auto& rank : ranks_) {
    try {
      Task<Value> task(this->shared_from_this());
      spawn(*rank, rank_loop(std::move(task), *rank));
    } catch (...) {
      fail(std::current_exception());
      end_rank(*rank);
    }
  }
  try {
    Task<Value> task(this->shared_from_this());
    spawn(rank_of(StageId(0)), intake(std::move(task)));
  } catch (...) {
    fail(std::current_exception());
    rested();
  }
}

template <class Value>
asio::awaitable<StepResult> train(std::shared_ptr<PipelineState<Value>> state, Batch<Value> batch,
                                  std::shared_ptr<StopRequest> stop) {
  const bool update = batch.update;
  const auto step = state->begin(state->director(), std::move(batch), true, {});
  Ending ending(*state);  // the next step may begin, however this one goes
  bool commit = false;
  // Not with the shared pointer: the step keeps what its ranks do, and would keep itself.
  std::function<void(RankCore&)> prepare = [step = step.get()](RankCore& rank) {
    prepare_update(*step, static_cast<Rank<Value>&>(rank));
  };
  std::function<void(RankCore&)> conclude = [step = step.get(), &commit](RankCore& rank) {
    conclude_update(*step, static_cast<Rank<Value>&>(rank), commit);
  };
  stop->pass_on_to(step);
  const auto alarm = state->start_deadline(step);
  co_await step->all_ended();
  try {
    if (alarm) alarm->cancel();
    if (update && !step->stopping()) co_await step->on_every_rank(std::move(prepare));
    if (!step->stopping()) state->director().before_commit(step->number());
  } catch (...) {
    step->fail(std::current_exception());
  }

  commit = step->decide();  // from here on it is too late to cancel
  try {
    if (update || !commit) co_await step->on_every_rank(std::move(conclude));
  } catch (...) {  // for want of memory, before anybody was told; nobody could be
    end_without_memory();
  }
  state->accumulated(*step, commit, update);

  ending.now();  // whatever the callbacks below throw
  const StepResult result = step->result();
  state->tell(*step, result, &state->director(), commit);
  step->give_up();  // whoever still holds it may do so for longer than its executors live
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
  Ending ending(*state);
  stop->pass_on_to(step);
  const auto alarm = state->start_deadline(step);
  co_await step->all_ended();
  if (alarm) alarm->cancel();
  // Stages keep nothing of a forward that no backward follows, and gradients that earlier passes have
  // accumulated are not this step's to drop.
  step->decide();
  ending.now();
  const StepResult result = step->result();
  state->tell(*step, result, nullptr, false);
  step->give_up();
  if (const auto error = step->error()) throw StepError(*error);
  co_return result;
}

}  // namespace sluice::detail
