#include <sluice/schedule.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <sluice/looped_schedules.hpp>
#include <sluice/v_schedules.hpp>
#include <sluice/zero_bubble_schedules.hpp>

namespace sluice {
namespace {

constexpr std::array<std::pair<ScheduleName, std::string_view>, 10> names{{
    {ScheduleName::drain, "drain"},
    {ScheduleName::one_f_one_b, "1f1b"},
    {ScheduleName::gpipe, "gpipe"},
    {ScheduleName::eager_1f1b, "eager-1f1b"},
    {ScheduleName::interleaved, "interleaved"},
    {ScheduleName::looped_bfs, "looped-bfs"},
    {ScheduleName::zb_h1, "zb-h1"},
    {ScheduleName::zb_h2, "zb-h2"},
    {ScheduleName::zb_v, "zb-v"},
    {ScheduleName::dualpipe_v, "dualpipe-v"},
}};

}  // namespace

std::string_view to_string(ScheduleName name) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [name](const auto& entry) { return entry.first == name; });
  return found == names.end() ? "custom" : found->second;
}

std::optional<ScheduleName> parse_schedule_name(std::string_view text) {
  for (const auto& [name, spelling] : names) {
    if (spelling == text) return name;
  }
  return std::nullopt;
}

std::vector<RankId> one_stage_a_rank(int stages) {
  std::vector<RankId> rank_of;
  rank_of.reserve(static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s) rank_of.push_back(RankId(s));
  return rank_of;
}

bool is_listed(ScheduleName name) { return name > ScheduleName::eager_1f1b; }

int default_chunks(ScheduleName name) {
  const bool several = name == ScheduleName::interleaved || name == ScheduleName::looped_bfs ||
                       name == ScheduleName::zb_v || name == ScheduleName::dualpipe_v;
  return several ? 2 : 1;
}

std::string shape_error(ScheduleName name, int stages, int microbatches, int chunks) {
  const bool v_shaped = name == ScheduleName::zb_v || name == ScheduleName::dualpipe_v;
  const bool looped = name == ScheduleName::interleaved || name == ScheduleName::looped_bfs ||
                      name == ScheduleName::zb_h1;
  if (v_shaped && chunks != 2) return "chunks = 2: a V has two stages a rank";
  if (!v_shaped && !looped && chunks != 1) return "chunks = 1: this schedule has one stage a rank";
  if (chunks < 1 || stages % chunks != 0) {
    return fmt::format("stages to be a multiple of chunks = {}, so that every rank has as many",
                       chunks);
  }
  if (name == ScheduleName::dualpipe_v && microbatches < stages) {
    return fmt::format("microbatches of at least stages = {}, two for every rank", stages);
  }
  return "";
}

Schedule listed_schedule(ScheduleName name, int stages, int microbatches, int chunks) {
  const int ranks = stages / chunks;
  Schedule schedule;
  switch (name) {
    case ScheduleName::interleaved:
      schedule = detail::interleaved(ranks, chunks, microbatches);
      break;
    case ScheduleName::looped_bfs:
      schedule = detail::looped_bfs(ranks, chunks, microbatches);
      break;
    case ScheduleName::zb_h1: schedule = detail::zb_h1(ranks, chunks, microbatches); break;
    case ScheduleName::zb_h2: schedule = detail::zb_h2(stages, microbatches); break;
    case ScheduleName::zb_v: schedule = detail::zb_v(ranks, microbatches); break;
    default: schedule = detail::dualpipe_v(ranks, microbatches); break;
  }
  schedule.overlapped.resize(schedule.order.size());
  return schedule;
}

Action static_action(StageId stage, int microbatches, int drain_depth, int k) {
  const int warm_up = std::min(microbatches, drain_depth - stage.value);
  if (k < warm_up) return Action(stage, Phase::forward, MicrobatchId(k));
  const int in_pairs = k - warm_up;
  const int pairs = microbatches - warm_up;
  if (in_pairs >= 2 * pairs) {
    return Action(stage, Phase::backward, MicrobatchId(in_pairs - pairs));
  }
  return in_pairs % 2 == 0 ? Action(stage, Phase::forward, MicrobatchId(warm_up + in_pairs / 2))
                           : Action(stage, Phase::backward, MicrobatchId(in_pairs / 2));
}

Order static_order(int stages, int microbatches, int drain_depth) {
  Order order(static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s) {
    auto& of_rank = order[static_cast<std::size_t>(s)];
    of_rank.reserve(2 * static_cast<std::size_t>(microbatches));
    for (int k = 0; k < 2 * microbatches; ++k) {
      of_rank.push_back(static_action(StageId(s), microbatches, drain_depth, k));
    }
  }
  return order;
}

std::vector<std::int64_t> peak_of_ranks(const Order& order, std::span<const std::int64_t> weights) {
  std::vector<std::int64_t> peaks;
  for (const auto& of_rank : order) {
    std::int64_t held = 0;
    std::int64_t peak = 0;
    for (const Action& action : of_rank) {
      const std::int64_t weight = weights.empty() ? 1 : weights[action.stage.index()];
      if (action.phase == Phase::forward) held += weight;
      peak = std::max(peak, held);
      if (releases(action.phase)) held -= weight;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

int drain_depth_of(const Order& order, std::span<const RankId> rank_of) {
  int forwards = 0;
  for (const Action& action : order[rank_of.front().index()]) {
    if (action.stage != StageId(0)) continue;
    if (action.phase != Phase::forward) break;
    ++forwards;
  }
  return forwards - 1;
}

}  // namespace sluice
