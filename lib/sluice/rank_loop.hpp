// The stage's loop: ask what goes next, let one ticket through, wake its owner.
//
// One coroutine a rank, on the rank's executor; it alone touches the rank's stages. Resumes there after
// every suspension. `task` keeps `rank` alive.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <asio/awaitable.hpp>

#include <sluice/inbound.hpp>
#include <sluice/step.hpp>

namespace sluice::detail {

#if defined(__GNUC__) && !defined(__clang__)
// Inlined apart, Asio's own allocation and release of a frame look like a mismatch to g++ 12.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
template <class Value>
asio::awaitable<void> rank_loop(Task<Value> task, Rank<Value>& rank) {
  Step<Value>* const step = task.step();
  try {
    rank.pace().begin_turn();
    while (!rank.finished()) {
      const std::size_t chosen = rank.decide();
      const Option option = rank.ready().options()[chosen];
      if (option.kind == Option::Kind::stop) break;
      if (option.kind == Option::Kind::wait) {
        co_await rank.arrival();
        rank.pace().begin_turn();
        continue;
      }

      auto& ticket = static_cast<Ticket<Value>&>(*rank.ready().take(chosen));
      const Action action = ticket.action;
      OwnedStage<Value>& owned = rank.owned(action.stage);
      ActionContext<Value> context = context_of(*step, ticket);
      context.outside = &rank;
      Value result;        // what goes on to the next stage
      Value contribution;  // to the stage's weight gradient
      std::exception_ptr error;
      rank.enter(ticket);
      Inbound<Value> inbound(rank, ticket, context.target);
      try {
        switch (action.phase) {
          case Phase::forward:
            result = co_await step->forward(rank, owned, context, std::move(ticket.value));
            break;
          case Phase::backward: {
            auto gradients = co_await owned.stage->backward(context, std::move(ticket.value));
            result = std::move(gradients.input);
            contribution = std::move(gradients.contribution);
            break;
          }
          case Phase::input_gradient:
            result = co_await owned.stage->input_gradient(context, std::move(ticket.value));
            break;
          case Phase::weight_gradient:
            contribution = co_await owned.stage->weight_gradient(context);
            break;
        }
      } catch (...) {
        error = std::current_exception();
      }
      if (!rank.at_home()) co_await rank.come_home();
      if (!error) error = step->take_in(owned, ticket, context, result, contribution);

      if (error) {
        inbound.failed();
        rank.failed(ticket);
        step->fail_as([&] { return StepError::from_stage(action, error); }, rank.place());
        step->turn_away(ticket);
      } else {
        inbound.ended();
        // Before the result leaves the rank: what is recorded has happened, what left is recorded.
        std::optional<std::uint64_t> hash;
        if constexpr (WireTraits<Value>::hashes) {
          if (rank.wants_hashes() && owned.stage->determinism() == Determinism::bitwise) {
            hash = WireTraits<Value>::hash(result);
          }
        }
        if (action.phase == Phase::input_gradient) rank.defer_weight_gradient(ticket);
        rank.exit(ticket, hash);
        if (action.phase == Phase::weight_gradient) rank.weight_gradient_done(ticket);
        ticket.hand_back(nullptr, std::move(result));
        if (releases(action.phase) && action.stage == StageId(0)) step->released();
      }
      if (rank.pace().turn_has_ended()) {
        co_await rank.turn_over();
        rank.pace().begin_turn();
      }
    }
  } catch (...) {  // out of the director, or of memory: what stage functions throw is caught above
    step->fail(std::current_exception());
  }
  step->end_rank(rank);
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/// What the stage function of this ticket's action is told.
template <class Value>
ActionContext<Value> context_of(const Step<Value>& step, const Ticket<Value>& ticket) {
  ActionContext<Value> context;
  context.action = ticket.action;
  context.step = step.number();
  context.samples = ticket.samples;
  context.batch_samples = step.batch().samples;
  context.training = step.training();
  context.seed = step.seed();
  if (ticket.action.stage == step.last_stage()) context.target = ticket.target;
  return context;
}

}  // namespace sluice::detail
