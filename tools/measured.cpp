#include "measured.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <sluice/picture.hpp>

#include "plan_report.hpp"

namespace sluice::tools {

MeasuredStep measure(std::span<const Event> events, const StepMetrics& metrics) {
  MeasuredStep measured;
  measured.step = metrics.step;
  measured.bubble = metrics.bubble_measured;
  for (const RankMetrics& rank : metrics.ranks) measured.peak_held.push_back(rank.peak_held);

  std::map<Action, std::int64_t> entered;
  std::int64_t start = 0;
  for (const Event& event : events) {
    if (event.kind == Event::Kind::enter) {
      // Causal order is not the clock's: the first to enter need not come first.
      if (entered.empty() || event.time_ns < start) start = event.time_ns;
      entered.emplace(event.action, event.time_ns);
    }
  }
  for (const Event& event : events) {
    if (event.kind != Event::Kind::exit) continue;
    measured.timeline.actions.push_back(measured_action(
        event.action, event.rank, entered.at(event.action) - start, event.time_ns - start));
  }
  auto& actions = measured.timeline.actions;
  std::sort(actions.begin(), actions.end(), [](const TimedAction& a, const TimedAction& b) {
    return std::tie(a.start, a.rank) < std::tie(b.start, b.rank);
  });
  for (const TimedAction& timed : actions) {
    measured.timeline.makespan = std::max(measured.timeline.makespan, timed.end);
  }
  return measured;
}

std::string picture_of(const MeasuredStep& measured, const Plan& plan) {
  const auto& actions = measured.timeline.actions;
  const Scale same = same_columns(scale_of(plan), plan.timeline, measured.timeline);
  // Where much of the step is waiting, the same columns are too few to read it: then its head is shown.
  const Scale readable = fit(actions, plan.stages, picture_columns);
  const bool dense =
      same.columns / same.span.units() < 0.9 * readable.columns / readable.span.units();
  return draw(actions, plan.stages, dense ? readable : same);
}

void MeasuredSteps::add(MeasuredStep step) {
  steps_.push_back(std::move(step));
  if (steps_.size() > window) steps_.pop_front();
}

const MeasuredStep& MeasuredSteps::median() const {
  std::vector<const MeasuredStep*> sorted;
  sorted.reserve(steps_.size());
  for (const MeasuredStep& step : steps_) sorted.push_back(&step);
  std::sort(sorted.begin(), sorted.end(), [](const MeasuredStep* a, const MeasuredStep* b) {
    return std::tie(a->timeline.makespan, a->step) < std::tie(b->timeline.makespan, b->step);
  });
  return *sorted[sorted.size() / 2];
}

}  // namespace sluice::tools
