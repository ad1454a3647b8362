#include <sluice/stop_request.hpp>

namespace sluice::detail {

void StopRequest::make() {
  std::shared_ptr<StepCore> step;
  {
    const std::scoped_lock lock(mutex_);
    made_ = true;
    step = step_.lock();
  }
  if (step) step->cancel();
}

void StopRequest::pass_on_to(const std::shared_ptr<StepCore>& step) {
  {
    const std::scoped_lock lock(mutex_);
    step_ = step;
    if (!made_) return;
  }
  step->cancel();
}

}  // namespace sluice::detail
