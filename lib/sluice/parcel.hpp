// A parcel: the step's side of a delivery that is in the embedder's hands.
//
// Made by the step for each output that PipelineOptions::carry is given; called from any thread. The step lives
// as long as somebody waits for the output, so a parcel does not keep it.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include <sluice/crossings.hpp>
#include <sluice/delivery.hpp>
#include <sluice/step_error.hpp>

namespace sluice::detail {

template <class Step>
class Parcel final : public Delivery::Parcel {
 public:
  Parcel(std::weak_ptr<Step> step, const Action& action)
      : step_(std::move(step)), action_(action) {}
  Parcel(const Parcel&) = delete;
  Parcel& operator=(const Parcel&) = delete;
  ~Parcel() override {
    if (arrived_.load(std::memory_order_relaxed)) return;
    if (const auto step = step_.lock()) step->lost(number);
  }

  void arrive() override {
    const bool again = arrived_.exchange(true, std::memory_order_relaxed);
    const auto step = step_.lock();
    if (!step) return;
    if (!again) return step->arrived(number);
    step->fail_as([this] {
      return StepError(StepError::Kind::runtime_failed,
                       fmt::format("the input of {} was delivered twice; PipelineOptions::carry "
                                   "calls each delivery once",
                                   to_string(action_)),
                       action_);
    });
  }

  Crossings::Number number = 0;

 private:
  std::weak_ptr<Step> step_;
  Action action_;
  std::atomic<bool> arrived_{false};
};

}  // namespace sluice::detail
