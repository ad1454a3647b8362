// Which backwards of a plan are split into I and W.
//
// Some schedules split all, some none, some a few towards the end. Built once for a plan, then read by
// every microbatch.
#pragma once

#include <vector>

#include <sluice/ids.hpp>
#include <sluice/plan.hpp>

namespace sluice::detail {

class SplitTable {
 public:
  explicit SplitTable(const Plan& plan)
      : microbatches_(static_cast<std::size_t>(plan.microbatches)),
        split_(static_cast<std::size_t>(plan.stages) * microbatches_, false) {
    for (const auto& actions : plan.order) {
      for (const Action& action : actions) {
        if (action.phase == Phase::input_gradient) split_[place(action.stage, action.mb)] = true;
      }
    }
  }

  bool is_split(StageId stage, MicrobatchId mb) const { return split_[place(stage, mb)]; }

 private:
  std::size_t place(StageId stage, MicrobatchId mb) const {
    return stage.index() * microbatches_ + mb.index();
  }

  std::size_t microbatches_;
  std::vector<bool> split_;
};

}  // namespace sluice::detail
