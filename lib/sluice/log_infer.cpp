#include <sluice/log_infer.hpp>

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include <sluice/finding.hpp>

namespace sluice {
namespace {

// A derived plan takes about 90 bytes a pair; a schedule is not looked for in larger steps.
constexpr std::int64_t most_pairs = std::int64_t{1} << 22;

constexpr std::array<ScheduleName, 9> candidates{
    ScheduleName::one_f_one_b, ScheduleName::gpipe,      ScheduleName::eager_1f1b,
    ScheduleName::interleaved, ScheduleName::looped_bfs, ScheduleName::zb_h1,
    ScheduleName::zb_h2,       ScheduleName::zb_v,       ScheduleName::dualpipe_v};

int ranks_of(const LogFacts& facts) {
  return static_cast<int>(std::count_if(facts.ranks.begin(), facts.ranks.end(),
                                        [](const OrderHash& order) { return order.actions > 0; }));
}

/// Whether every rank, or where ranks are not named every stage, ran what `plan` says.
bool same_order(const Plan& plan, const LogFacts& facts, bool by_rank) {
  std::vector<OrderHash> hashes(by_rank ? plan.order.size() : facts.stages.size());
  for (std::size_t r = 0; r < plan.order.size(); ++r) {
    for (const Action& action : plan.order[r]) {
      hashes[by_rank ? r : action.stage.index()].add(action);
    }
  }
  if (by_rank) return hashes == facts.ranks;
  return std::equal(
      hashes.begin(), hashes.end(), facts.stages.begin(), facts.stages.end(),
      [](const OrderHash& order, const StageFacts& stage) { return order == stage.order; });
}

bool has_order(const PlanConfig& config, const LogFacts& facts, bool by_rank) {
  try {
    return same_order(derive_plan(config), facts, by_rank);
  } catch (const ConfigError&) {
    return false;  // a schedule that this shape cannot have
  }
}

/// The W of the law that gives this order. Stage 0 tells it by its forwards before its first
/// backward, unless all M fit: then the others do, up to fill-and-drain.
std::optional<int> depth_of(PlanConfig config, const LogFacts& facts, bool by_rank) {
  config.schedule = ScheduleName::drain;
  const int entered = facts.stages.front().warm_up;
  const int most = entered < config.microbatches ? entered - 1 : entered + config.stages - 2;
  for (int depth = std::max(0, entered - 1); depth <= std::max(0, most); ++depth) {
    config.drain_depth = depth;
    if (has_order(config, facts, by_rank)) return depth;
  }
  return std::nullopt;
}

}  // namespace

Inference infer(const LogFacts& facts) {
  Inference result;
  result.stages = static_cast<int>(facts.stages.size());
  result.microbatches = facts.microbatches;
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
  PlanConfig config;
  config.stages = result.stages;
  config.microbatches = result.microbatches;
  if (const auto depth = depth_of(config, facts, result.ranks_named)) {
    result.drain_depth = *depth;
    result.schedules.push_back({ScheduleName::drain, 1});
  }
  for (const ScheduleName name : candidates) {
    config.schedule = name;
    const bool any_chunks = name == ScheduleName::interleaved || name == ScheduleName::looped_bfs;
    const int least = any_chunks && !result.ranks_named ? 1 : result.chunks;
    const int most = any_chunks && !result.ranks_named ? result.stages : result.chunks;
    for (int chunks = least; chunks <= most; ++chunks) {
      if (any_chunks && result.stages % chunks != 0) continue;
      config.chunks = any_chunks           ? std::optional(chunks)
                      : result.ranks_named ? std::optional(result.chunks)
                                           : std::nullopt;
      if (has_order(config, facts, result.ranks_named)) {
        result.schedules.push_back({name, config.chunks.value_or(default_chunks(name))});
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
  for (const Guess& guess : inference.schedules) {
    text += &guess == &inference.schedules.front() ? ", schedule = " : " or ";
    text += to_string(guess.schedule);
  }
  return text;
}

}  // namespace sluice
