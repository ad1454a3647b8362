#include <sluice/schedule_check.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include <sluice/timeline.hpp>

namespace sluice {
namespace {

/// What has been seen of a (stage, microbatch): a bit a phase.
class Seen {
 public:
  Seen(std::size_t stages, int microbatches)
      : row_(static_cast<std::size_t>(microbatches)), bits_(stages * row_, 0) {}

  bool has(const Action& action, Phase phase) const {
    return (bits_[index(action)] & bit(phase)) != 0;
  }
  void add(const Action& action) {
    bits_[index(action)] = static_cast<std::uint8_t>(bits_[index(action)] | bit(action.phase));
  }

 private:
  static unsigned bit(Phase phase) { return 1U << static_cast<unsigned>(phase); }
  std::size_t index(const Action& action) const {
    return action.stage.index() * row_ + action.mb.index();
  }

  std::size_t row_;
  std::vector<std::uint8_t> bits_;
};

/// Why `action` cannot stand here; empty when it can. What it waits for on other ranks is another
/// question.
std::string expected_before(const Seen& seen, const Action& action) {
  const auto other = [&action](Phase phase) {
    return to_string(Action(action.stage, phase, action.mb));
  };
  if (seen.has(action, action.phase)) return "each action once";
  if (action.phase == Phase::forward) return "";
  if (!seen.has(action, Phase::forward)) return other(Phase::forward) + " before it";
  if (action.phase == Phase::backward) {
    if (seen.has(action, Phase::input_gradient)) return other(Phase::weight_gradient);
    return "";
  }
  if (seen.has(action, Phase::backward)) {
    return fmt::format(
        "nothing after {}, which is both halves (in the older notation, B is the "
        "input gradient alone)",
        other(Phase::backward));
  }
  if (action.phase == Phase::weight_gradient && !seen.has(action, Phase::input_gradient)) {
    return other(Phase::input_gradient) + " before it";
  }
  return "";
}

std::optional<ScheduleError> check_placement(const Schedule& schedule) {
  std::vector<bool> has_stage(schedule.order.size(), false);
  for (std::size_t s = 0; s < schedule.rank_of.size(); ++s) {
    const RankId rank = schedule.rank_of[s];
    if (rank.value >= 0 && rank.index() < has_stage.size()) {
      has_stage[rank.index()] = true;
      continue;
    }
    return ScheduleError{RankId(0), 0, fmt::format("stage {} on rank {}", s, rank.value),
                         fmt::format("a rank from 0 to {}", has_stage.size() - 1)};
  }
  const auto idle = std::find(has_stage.begin(), has_stage.end(), false);
  if (idle == has_stage.end() && !has_stage.empty()) return std::nullopt;
  return ScheduleError{RankId(idle - has_stage.begin()), 0, "a rank without a stage",
                       "at least one stage for every rank"};
}

std::optional<ScheduleError> check_rank(const Schedule& schedule, RankId rank, int microbatches,
                                        Seen& seen) {
  const auto& rank_of = schedule.rank_of;
  const auto& order = schedule.order[rank.index()];
  for (std::size_t k = 0; k < order.size(); ++k) {
    const Action& action = order[k];
    const auto wrong = [&](std::string expected) {
      return ScheduleError{rank, k, to_string(action), std::move(expected)};
    };
    if (action.stage.value < 0 || action.stage.index() >= rank_of.size()) {
      return wrong(fmt::format("a stage from 0 to {}", rank_of.size() - 1));
    }
    if (action.mb.value < 0 || action.mb.value >= microbatches) {
      return wrong(fmt::format("a microbatch from 0 to {}", microbatches - 1));
    }
    const RankId owner = rank_of[action.stage.index()];
    if (owner != rank) {
      return wrong(fmt::format("stage {} on rank {} alone", action.stage.value, owner.value));
    }
    auto expected = expected_before(seen, action);
    if (!expected.empty()) return wrong(std::move(expected));
    seen.add(action);
  }
  if (schedule.overlapped.empty()) return std::nullopt;
  for (const std::size_t first : schedule.overlapped[rank.index()]) {
    const bool pair = first + 1 < order.size() && order[first].phase == Phase::forward &&
                      order[first + 1].phase == Phase::backward;
    if (!pair) {
      return ScheduleError{rank, first, "an overlapped pair",
                           "a forward and a whole backward in it"};
    }
  }
  return std::nullopt;
}

/// An action that is nowhere, as if it were missed at the end of its rank.
std::optional<ScheduleError> check_missing(const Schedule& schedule, int microbatches,
                                           const Seen& seen) {
  const auto stages = static_cast<int>(schedule.rank_of.size());
  for (StageId stage(0); stage.value < stages; stage = stage.next()) {
    for (MicrobatchId mb(0); mb.value < microbatches; mb = mb.next()) {
      Action action(stage, Phase::forward, mb);
      if (seen.has(action, Phase::forward)) {
        if (seen.has(action, Phase::backward) || seen.has(action, Phase::weight_gradient)) continue;
        const bool half = seen.has(action, Phase::input_gradient);
        action.phase = half ? Phase::weight_gradient : Phase::backward;
      }
      const RankId rank = schedule.rank_of[stage.index()];
      return ScheduleError{rank, schedule.order[rank.index()].size(), "the end",
                           to_string(action) + ", which is missing"};
    }
  }
  return std::nullopt;
}

/// Whether every rank can run its order to the end, whatever time anything takes. Of a schedule that
/// is a whole step, each action after what it needs on its own stage.
class Progress {
 public:
  Progress(const Schedule& schedule, int microbatches)
      : schedule_(schedule),
        row_(static_cast<std::size_t>(microbatches)),
        done_(2 * schedule.rank_of.size() * row_, false),
        next_(schedule.order.size(), 0),
        awaited_(schedule.order.size(), nothing) {}

  bool finishes() {
    for (std::size_t r = 0; r < next_.size(); ++r) ready_.push_back(r);
    while (!ready_.empty()) {
      const std::size_t rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    for (std::size_t r = 0; r < next_.size(); ++r) {
      if (next_[r] != schedule_.order[r].size()) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t nothing = ~std::size_t{0};

  /// The place of a stage's output: of its forward, or of its gradient.
  std::size_t output(std::size_t stage, bool forward, MicrobatchId mb) const {
    return (2 * stage + (forward ? 0 : 1)) * row_ + mb.index();
  }

  /// What `action` needs from another stage; nothing when it has it.
  std::size_t missing(const Action& action) const {
    const bool forward = action.phase == Phase::forward;
    const bool first =
        forward ? action.stage.value == 0 : action.stage.index() + 1 == schedule_.rank_of.size();
    if (first || action.phase == Phase::weight_gradient) return nothing;
    const std::size_t from = forward ? action.stage.index() - 1 : action.stage.index() + 1;
    const std::size_t place = output(from, forward, action.mb);
    return done_[place] ? nothing : place;
  }

  bool overlaps(std::size_t rank, std::size_t position) const {
    if (schedule_.overlapped.empty()) return false;
    const auto& pairs = schedule_.overlapped[rank];
    return std::binary_search(pairs.begin(), pairs.end(), position);
  }

  void advance(std::size_t rank) {
    const auto& order = schedule_.order[rank];
    for (std::size_t& k = next_[rank]; k < order.size(); ++k) {
      awaited_[rank] = missing(order[k]);
      // Two that overlap start together.
      if (awaited_[rank] == nothing && overlaps(rank, k)) awaited_[rank] = missing(order[k + 1]);
      if (awaited_[rank] != nothing) return;
      finish(order[k]);
    }
  }

  void finish(const Action& action) {
    if (action.phase == Phase::weight_gradient) return;
    const bool forward = action.phase == Phase::forward;
    const std::size_t place = output(action.stage.index(), forward, action.mb);
    done_[place] = true;
    const std::size_t to = action.stage.index() + (forward ? 1 : ~std::size_t{0});  // +1 or -1
    if (to >= schedule_.rank_of.size()) return;
    const std::size_t rank = schedule_.rank_of[to].index();
    if (awaited_[rank] != place) return;
    awaited_[rank] = nothing;
    ready_.push_back(rank);
  }

  const Schedule& schedule_;
  std::size_t row_;
  std::vector<char> done_;  // by place
  std::vector<std::size_t> next_;
  std::vector<std::size_t> awaited_;  // the place that a rank stands before
  std::vector<std::size_t> ready_;    // ranks
};

}  // namespace

std::optional<ScheduleError> check_schedule(const Schedule& schedule, int microbatches) {
  if (auto error = check_placement(schedule)) return error;
  Seen seen(schedule.rank_of.size(), microbatches);
  for (RankId rank(0); rank.index() < schedule.order.size(); rank = rank.next()) {
    if (auto error = check_rank(schedule, rank, microbatches, seen)) return error;
  }
  if (auto error = check_missing(schedule, microbatches, seen)) return error;
  if (Progress(schedule, microbatches).finishes()) return std::nullopt;
  try {
    simulate_order(schedule, microbatches, {});  // throws, naming the cycle
  } catch (const StuckError& stuck) {
    const Wait& wait = stuck.waits().front();
    const auto& order = schedule.order[wait.rank.index()];
    const auto at = std::find(order.begin(), order.end(), wait.action) - order.begin();
    return ScheduleError{wait.rank, static_cast<std::size_t>(at), to_string(wait.action),
                         fmt::format("an order that can finish; {}", stuck.what())};
  }
  return std::nullopt;
}

}  // namespace sluice
