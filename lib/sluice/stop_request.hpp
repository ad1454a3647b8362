// A caller's wish to end its own call, made through the cancellation slot of its completion token.
//
// Asio's slots are not synchronised with the operation they belong to. So the slot is given this, once,
// before anything starts, and is never touched again: the wish may then be made from any thread, before
// the step has begun, while it runs, or after it has ended. Shared by the slot and the step's coroutine.
#pragma once

#include <memory>
#include <mutex>

#include <sluice/step_core.hpp>

namespace sluice::detail {

class StopRequest {
 public:
  /// From any thread.
  void make();
  /// The step has begun: ends it as cancelled, now or as soon as somebody asks.
  void pass_on_to(const std::shared_ptr<StepCore>& step);

 private:
  std::mutex mutex_;
  bool made_ = false;
  std::weak_ptr<StepCore> step_;
};

}  // namespace sluice::detail
