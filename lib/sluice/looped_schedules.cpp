#include <sluice/looped_schedules.hpp>

#include <algorithm>
#include <cstddef>

namespace sluice::detail {
namespace {

std::vector<RankId> dealt_round(int ranks, int chunks) {
  std::vector<RankId> rank_of;
  rank_of.reserve(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(chunks));
  for (int s = 0; s < ranks * chunks; ++s) rank_of.push_back(RankId(s % ranks));
  return rank_of;
}

/// How many microbatches go through a rank's stages together, group by group: P each, and the rest.
///
/// A rest shorter than P-2 would come back to rank 0 before the ranks between are ready for it, and
/// with most such rests every rank ends up waiting for the next. Then all groups are made larger
/// instead, as even as can be. (Found by trying every shape up to 8 ranks, 4 chunks, 33 microbatches.)
std::vector<int> groups(int ranks, int chunks, int microbatches) {
  const int whole = microbatches / ranks;
  const int rest = microbatches % ranks;
  const bool comes_round =
      rest == 0 || whole == 0 || rest >= ranks - 2 || chunks == 1 || (chunks == 2 && rest == 1);
  std::vector<int> sizes(static_cast<std::size_t>(whole), ranks);
  if (comes_round) {
    if (rest > 0) sizes.push_back(rest);
    return sizes;
  }
  for (int i = 0; i < rest; ++i) ++sizes[static_cast<std::size_t>(i % whole)];
  return sizes;
}

/// A rank's forwards in order. Its backwards go through the chunks the other way round.
std::vector<Action> in_groups(int rank, int ranks, int chunks, const std::vector<int>& sizes,
                              Phase phase) {
  std::vector<Action> result;
  int first = 0;
  for (const int size : sizes) {
    for (int c = 0; c < chunks; ++c) {
      const int chunk = phase == Phase::forward ? c : chunks - 1 - c;
      for (int mb = first; mb < first + size; ++mb) {
        result.push_back(Action(StageId(chunk * ranks + rank), phase, MicrobatchId(mb)));
      }
    }
    first += size;
  }
  return result;
}

}  // namespace

Schedule interleaved(int ranks, int chunks, int microbatches) {
  Schedule schedule;
  schedule.rank_of = dealt_round(ranks, chunks);
  const auto sizes = groups(ranks, chunks, microbatches);
  const int largest = std::max(ranks, sizes.front());
  for (int r = 0; r < ranks; ++r) {
    const auto forwards = in_groups(r, ranks, chunks, sizes, Phase::forward);
    const auto backwards = in_groups(r, ranks, chunks, sizes, Phase::backward);
    const auto warm_up = std::min(
        forwards.size(), static_cast<std::size_t>(2 * (ranks - 1 - r) + (chunks - 1) * largest));
    auto& order = schedule.order.emplace_back(
        forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
    for (std::size_t k = 0; k < backwards.size(); ++k) {
      if (warm_up + k < forwards.size()) order.push_back(forwards[warm_up + k]);
      order.push_back(backwards[k]);
    }
  }
  return schedule;
}

Schedule zb_h1(int ranks, int chunks, int microbatches) {
  Schedule schedule;
  schedule.rank_of = dealt_round(ranks, chunks);
  const auto sizes = groups(ranks, chunks, microbatches);
  const int largest = std::max(ranks, sizes.front());
  for (int r = 0; r < ranks; ++r) {
    const auto forwards = in_groups(r, ranks, chunks, sizes, Phase::forward);
    const auto inputs = in_groups(r, ranks, chunks, sizes, Phase::input_gradient);
    const auto weights = in_groups(r, ranks, chunks, sizes, Phase::weight_gradient);
    const auto lag = static_cast<std::size_t>(r);
    const auto warm_up =
        std::min(forwards.size(), static_cast<std::size_t>(ranks - 1 - r + (chunks - 1) * largest));
    auto& order = schedule.order.emplace_back(
        forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
    for (std::size_t k = 0; k < inputs.size() + lag; ++k) {
      if (warm_up + k < forwards.size()) order.push_back(forwards[warm_up + k]);
      if (k < inputs.size()) order.push_back(inputs[k]);
      if (k >= lag) order.push_back(weights[k - lag]);
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
