// The intake: asks the batch source for the next microbatch as soon as there is room for it, and
// starts its life.
//
// One coroutine a step, on the executor of the rank that owns stage 0.
#pragma once

#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>

#include <asio/awaitable.hpp>
#include <fmt/format.h>

#include <sluice/microbatch.hpp>
#include <sluice/step.hpp>

namespace sluice::detail {

/// The microbatches must add up to the batch, or the mean over its samples would be a lie.
inline void check_samples(std::int64_t so_far, bool last, std::int64_t promised) {
  if (so_far <= promised && (!last || so_far == promised)) return;
  throw std::invalid_argument(
      fmt::format("the microbatches hold {}{} samples, the batch was announced with {}; give Batch "
                  "the sum over its microbatches",
                  last ? "" : "at least ", so_far, promised));
}

template <class Value>
asio::awaitable<void> intake(std::shared_ptr<Step<Value>> step) {
  const int microbatches = step->plan().microbatches;
  std::int64_t samples = 0;
  MicrobatchId mb(0);
  try {
    for (; mb.value < microbatches; mb = mb.next()) {
      while (!step->door().open()) co_await step->door().opened();
      if (step->door().closed()) break;
      auto data = co_await step->batch().source->next(mb);
      samples += data.samples;
      check_samples(samples, mb.value + 1 == microbatches, step->batch().samples);
      step->door().enter();
      step->microbatch_entered();
      step->spawn(step->rank_of(StageId(0)), microbatch(step, mb, std::move(data)));
    }
  } catch (...) {
    step->fail(StepError::from_source(mb, microbatches, std::current_exception()));
  }
  step->rested();
}

}  // namespace sluice::detail
