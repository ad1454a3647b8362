// The life of a microbatch, top to bottom: enter, F0..F(S-1), loss, B(S-1)..B0, retire.
//
// The value in hand is its local variable; what a stage needs again for the backward stays with the
// stage. Where the backward is split this is its first half, the input gradient; the weight gradient is
// the stage's own affair. Each `run` files a ticket with the next stage and sleeps until that stage has let it through.
// One coroutine a microbatch, created when stage 0 has room for it, gone when it retires.
#pragma once

#include <exception>
#include <utility>

#include <asio/awaitable.hpp>

#include <sluice/step.hpp>

namespace sluice::detail {

template <class Value>
asio::awaitable<void> microbatch(Task<Value> task, MicrobatchId mb, MicrobatchData<Value> data) {
  Step<Value>* const step = task.step();
  try {
    Ticket<Value> ticket;
    ticket.target = &data.target;
    ticket.samples = data.samples;

    Value x = std::move(data.input);
    for (StageId s(0); s <= step->last_stage(); s = s.next()) {
      x = co_await step->run(ticket, Action(s, Phase::forward, mb), std::move(x));
    }
    if (step->training()) {
      for (StageId s = step->last_stage(); s >= StageId(0); s = s.previous()) {
        const Phase phase = step->backward_phase(s, mb);
        x = co_await step->run(ticket, Action(s, phase, mb), std::move(x));
      }
    } else {
      step->deliver(mb, std::move(x));
      step->left_forward_only();
    }
  } catch (...) {  // turned away, which says nothing new: the first error stands
    step->fail(std::current_exception());
  }
}

}  // namespace sluice::detail
