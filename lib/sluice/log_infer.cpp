#include <sluice/log_infer.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include <fmt/format.h>

#include <sluice/law.hpp>
#include <sluice/timeline.hpp>

namespace sluice {
namespace {

// A timeline takes about 90 bytes a pair; a schedule is not looked for in larger steps.
constexpr std::int64_t most_pairs = std::int64_t{1} << 22;

constexpr std::array<ScheduleName, 9> candidates{
    ScheduleName::one_f_one_b, ScheduleName::gpipe,      ScheduleName::eager_1f1b,
    ScheduleName::interleaved, ScheduleName::looped_bfs, ScheduleName::zb_h1,
    ScheduleName::zb_h2,       ScheduleName::zb_v,       ScheduleName::dualpipe_v};

int ranks_of(const LogFacts& facts) {
  return static_cast<int>(std::count_if(facts.ranks.begin(), facts.ranks.end(),
                                        [](const OrderHash& order) { return order.actions > 0; }));
}

Schedule by_law(const LogFacts& facts, std::span<const int> credits) {
  const auto stages = static_cast<int>(facts.stages.size());
  return {order_of(simulate_law(stages, facts.microbatches, credits, {})),
          one_stage_a_rank(stages),
          {}};
}

Schedule by_depth(const LogFacts& facts, int drain_depth) {
  const auto stages = static_cast<int>(facts.stages.size());
  if (drain_depth < stages - 1) return by_law(facts, law::credits(stages, drain_depth));
  return {static_order(stages, facts.microbatches, drain_depth), one_stage_a_rank(stages), {}};
}

/// A schedule at equal costs; nothing when this shape cannot have it.
std::optional<Schedule> schedule_of(ScheduleName name, int chunks, const LogFacts& facts) {
  const auto stages = static_cast<int>(facts.stages.size());
  if (!shape_error(name, stages, facts.microbatches, chunks).empty()) return std::nullopt;
  if (is_listed(name)) return listed_schedule(name, stages, facts.microbatches, chunks);
  if (name == ScheduleName::one_f_one_b) return by_depth(facts, stages - 1);
  if (name == ScheduleName::gpipe) return by_depth(facts, facts.microbatches + stages - 2);
  std::vector<int> credits;
  for (int s = 0; s < stages; ++s) credits.push_back(2 * (stages - s) - 1);
  return by_law(facts, credits);
}

/// Whether every rank, or where ranks are not named every stage, ran what `schedule` says.
bool same_order(const Schedule& schedule, const LogFacts& facts, bool by_rank) {
  std::vector<OrderHash> hashes(by_rank ? schedule.order.size() : facts.stages.size());
  for (std::size_t r = 0; r < schedule.order.size(); ++r) {
    for (const Action& action : schedule.order[r]) {
      hashes[by_rank ? r : action.stage.index()].add(action);
    }
  }
  if (by_rank) return hashes == facts.ranks;
  return std::equal(
      hashes.begin(), hashes.end(), facts.stages.begin(), facts.stages.end(),
      [](const OrderHash& order, const StageFacts& stage) { return order == stage.order; });
}

/// The W of the law that gives this order. Stage 0 tells it by its forwards before its first
/// backward, unless all M fit: then the others do, up to fill-and-drain.
std::optional<int> depth_of(const LogFacts& facts, bool by_rank) {
  const auto stages = static_cast<int>(facts.stages.size());
  const int entered = facts.stages.front().warm_up;
  const int most = entered < facts.microbatches ? entered - 1 : entered + stages - 2;
  for (int depth = std::max(0, entered - 1); depth <= std::max(0, most); ++depth) {
    if (same_order(by_depth(facts, depth), facts, by_rank)) return depth;
  }
  return std::nullopt;
}

}  // namespace

Inference infer(const LogFacts& facts) {
  Inference result;
  result.stages = static_cast<int>(facts.stages.size());
  result.microbatches = facts.microbatches;
  result.whole = facts.whole;
  if (result.stages == 0 || result.microbatches == 0) {
    result.doubts.emplace_back("the log has no records");
    return result;
  }
  result.drain_depth = facts.stages.front().warm_up - 1;
  const int ranks = ranks_of(facts);
  result.ranks_named = ranks > 0;
  if (ranks > 0 && result.stages % ranks == 0) result.chunks = result.stages / ranks;
  if (!facts.whole) {
    result.doubts.emplace_back("the log is not a whole step, so these are the least they can be");
    return result;
  }
  if (std::int64_t{result.stages} * result.microbatches > most_pairs) {
    result.doubts.emplace_back("the step is too large to look for its schedule");
    return result;
  }
  if (result.chunks == 1) {
    if (const auto depth = depth_of(facts, result.ranks_named)) {
      result.drain_depth = *depth;
      result.schedules.push_back({ScheduleName::drain, 1});
    }
  }
  for (const ScheduleName name : candidates) {
    const bool any = name == ScheduleName::interleaved || name == ScheduleName::looped_bfs;
    const int by_default = any ? 1 : default_chunks(name);
    const int least = result.ranks_named ? result.chunks : by_default;
    const int most = result.ranks_named ? result.chunks : any ? result.stages : by_default;
    for (int chunks = least; chunks <= most; ++chunks) {
      const auto schedule = schedule_of(name, chunks, facts);
      if (schedule && same_order(*schedule, facts, result.ranks_named)) {
        result.schedules.push_back({name, chunks});
      }
    }
  }
  if (result.schedules.empty()) {
    result.doubts.emplace_back(
        "its order is that of no schedule at equal costs: it may be adaptive, planned with other "
        "costs, or a schedule of its own");
  } else if (!result.ranks_named) {
    result.chunks = result.schedules.front().chunks;
    const bool agree =
        std::all_of(result.schedules.begin(), result.schedules.end(),
                    [&result](const Guess& guess) { return guess.chunks == result.chunks; });
    if (!agree) {
      result.doubts.emplace_back(
          "without rank= in the records, several placements have this order");
    }
  }
  return result;
}

std::string to_string(const Inference& inference) {
  std::string text = fmt::format("stages = {}, microbatches = {}, drain_depth = {}",
                                 inference.stages, inference.microbatches, inference.drain_depth);
  if (inference.chunks > 1)
    fmt::format_to(std::back_inserter(text), ", chunks = {}", inference.chunks);
  const Guess* before = nullptr;
  for (const Guess& guess : inference.schedules) {
    // One in several placements is named once.
    if (before != nullptr && before->schedule == guess.schedule) continue;
    text += before == nullptr ? ", schedule = " : " or ";
    text += to_string(guess.schedule);
    before = &guess;
  }
  return text;
}

}  // namespace sluice
