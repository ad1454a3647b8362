#include <sluice/looped_schedules.hpp>

#include <algorithm>

namespace sluice::detail {
namespace {

std::vector<RankId> dealt_round(int ranks, int chunks) {
  std::vector<RankId> rank_of;
  for (int s = 0; s < ranks * chunks; ++s) rank_of.push_back(RankId(s % ranks));
  return rank_of;
}

/// A rank's forwards in order. Its backwards go through the chunks the other way round.
std::vector<Action> in_groups(int rank, int ranks, int chunks, int microbatches, Phase phase) {
  std::vector<Action> result;
  for (int first = 0; first < microbatches; first += ranks) {
    const int end = std::min(first + ranks, microbatches);
    for (int c = 0; c < chunks; ++c) {
      const int chunk = phase == Phase::forward ? c : chunks - 1 - c;
      for (int mb = first; mb < end; ++mb) {
        result.push_back(Action(StageId(chunk * ranks + rank), phase, MicrobatchId(mb)));
      }
    }
  }
  return result;
}

}  // namespace

Schedule interleaved(int ranks, int chunks, int microbatches) {
  Schedule schedule;
  schedule.rank_of = dealt_round(ranks, chunks);
  for (int r = 0; r < ranks; ++r) {
    const auto forwards = in_groups(r, ranks, chunks, microbatches, Phase::forward);
    const auto backwards = in_groups(r, ranks, chunks, microbatches, Phase::backward);
    const auto warm_up = std::min(
        forwards.size(), static_cast<std::size_t>(2 * (ranks - 1 - r) + (chunks - 1) * ranks));
    auto& order =
        schedule.order.emplace_back(forwards.begin(), forwards.begin() + static_cast<int>(warm_up));
    for (std::size_t k = 0; k < backwards.size(); ++k) {
      if (warm_up + k < forwards.size()) order.push_back(forwards[warm_up + k]);
      order.push_back(backwards[k]);
    }
  }
  return schedule;
}

Schedule looped_bfs(int ranks, int chunks, int microbatches) {
  Schedule schedule;
  schedule.rank_of = dealt_round(ranks, chunks);
  for (int r = 0; r < ranks; ++r) {
    auto& order = schedule.order.emplace_back();
    for (int c = 0; c < chunks; ++c) {
      for (int mb = 0; mb < microbatches; ++mb) {
        order.push_back(Action(StageId(c * ranks + r), Phase::forward, MicrobatchId(mb)));
      }
    }
    for (std::size_t k = order.size(); k-- > 0;) {
      order.push_back(Action(order[k].stage, Phase::backward, order[k].mb));
    }
  }
  return schedule;
}

}  // namespace sluice::detail
