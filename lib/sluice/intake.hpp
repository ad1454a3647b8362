// The intake: asks the batch source for the next microbatch as soon as there is room for it, and
// starts its life.
//
// One coroutine a step, on the executor of the rank that owns stage 0.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include <asio/awaitable.hpp>
#include <sluice/microbatch.hpp>
#include <sluice/step.hpp>

namespace sluice::detail {

template <class Value>
asio::awaitable<void> intake(Task<Value> task) {
  Step<Value>* const step = task.step();
  Rank<Value>& first = step->rank_of(StageId(0));
  const int microbatches = step->plan().microbatches;
  MicrobatchId mb(0);
  try {
    for (; mb.value < microbatches; mb = mb.next()) {
      while (!step->door().open()) co_await step->door().opened();
      if (step->door().closed()) break;
      auto data = co_await step->batch().source->next(mb);
      if (!step->door().at_home(first)) co_await step->door().come_home();
      step->count_samples(data.samples, mb.value + 1 == microbatches);
      step->door().enter();
      step->microbatch_entered();
      Task<Value> life(step->shared_from_this());
      step->spawn(first, microbatch(std::move(life), mb, std::move(data)));
    }
  } catch (...) {
    const auto cause = std::current_exception();
    step->fail_as([&] { return StepError::from_source(mb, microbatches, cause); },
                  // While ranks stop the source may be asked once more, or may not.
                  Place::last());
  }
  step->rested();
}

}  // namespace sluice::detail
