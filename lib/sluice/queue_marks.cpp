#include <sluice/queue_marks.hpp>

#include <algorithm>
#include <cstddef>

namespace sluice {
namespace {

/// Both ascend. What is made k-th need not be what is taken k-th: only counts matter.
int most_waiting(const std::vector<Time>& made, const std::vector<Time>& taken) {
  std::size_t most = 0;
  std::size_t gone = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    // Several at one moment count together, after all that was taken at that moment.
    if (i + 1 < made.size() && made[i + 1] == made[i]) continue;
    while (gone < taken.size() && taken[gone] <= made[i]) ++gone;
    most = std::max(most, i + 1 - std::min(gone, i + 1));
  }
  return static_cast<int>(most);
}

}  // namespace

QueueMarks queue_marks(const Plan& plan) {
  // By start; a stage runs one after the other, so that its ends ascend too.
  const auto edges = plan.rank_of.size() - 1;
  std::vector<std::vector<Time>> made_down(edges), taken_down(edges), made_up(edges),
      taken_up(edges);
  for (const TimedAction& timed : plan.timeline.actions) {
    const std::size_t s = timed.action.stage.index();
    if (timed.action.phase == Phase::forward) {
      if (s < edges) made_down[s].push_back(timed.end);
      if (s > 0) taken_down[s - 1].push_back(timed.start);
    } else if (timed.action.phase != Phase::weight_gradient) {
      if (s > 0) made_up[s - 1].push_back(timed.end);
      if (s < edges) taken_up[s].push_back(timed.start);
    }
  }
  QueueMarks marks;
  for (std::size_t edge = 0; edge < edges; ++edge) {
    const bool one_rank = plan.rank_of[edge] == plan.rank_of[edge + 1];
    marks.down.push_back(one_rank ? 0 : most_waiting(made_down[edge], taken_down[edge]));
    marks.up.push_back(one_rank ? 0 : most_waiting(made_up[edge], taken_up[edge]));
  }
  return marks;
}

}  // namespace sluice
