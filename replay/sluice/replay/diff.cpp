#include <sluice/replay/diff.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/replay/error_text.hpp>
#include <sluice/replay/recorded_plan.hpp>
#include <sluice/replay/step_state.hpp>

namespace sluice::replay {
namespace {

/// What has been compared and is equal.
struct Counts {
  std::int64_t events = 0;
  std::int64_t actions = 0;
  std::int64_t hashes = 0;
};

/// What is compared by action, not by position.
bool has_result(const Event& event) {
  return event.hashed && (event.kind == Event::Kind::exit || event.kind == Event::Kind::committed);
}

Event without_hash(Event event) {
  event.hashed = false;
  return event;
}

/// The first difference of one rank in what it did.
std::optional<Mismatch> first_action(const RecordedStep& recorded, const RecordedStep& found,
                                     RankId rank, Counts& counts) {
  const auto& left = recorded.ranks[rank.index()];
  const auto& right = found.ranks[rank.index()];
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    std::optional<Event> a;
    std::optional<Event> b;
    if (i < left.size()) a = without_hash(left[i]);
    if (i < right.size()) b = without_hash(right[i]);
    // Where a recording ends, nothing can be said.
    if ((!a && !recorded.complete) || (!b && !found.complete)) break;
    const Event* pa = a ? &*a : nullptr;
    const Event* pb = b ? &*b : nullptr;
    if (const auto kind = compare(pa, pb)) {
      // A rank that stops has seen an error that is another rank's, or the step's.
      const bool stops =
          (a && a->kind == Event::Kind::stopped) || (b && b->kind == Event::Kind::stopped);
      if (stops || is_outcome(pa, pb)) break;
      return mismatch_of(*kind, rank, i, pa, pb);
    }
    ++counts.events;
    counts.actions += a && a->kind == Event::Kind::enter;
  }
  return std::nullopt;
}

/// The first difference of one rank in what came out.
std::optional<Mismatch> first_tensor(const RecordedStep& recorded, const RecordedStep& found,
                                     RankId rank, Counts& counts) {
  // An action that ran twice, which is a fault of its own, has two.
  std::map<std::pair<Event::Kind, Action>, std::deque<const Event*>> results;
  for (const Event& event : found.ranks[rank.index()]) {
    if (has_result(event)) results[{event.kind, event.action}].push_back(&event);
  }
  for (const Event& event : recorded.ranks[rank.index()]) {
    if (!has_result(event)) continue;
    auto& others = results[{event.kind, event.action}];
    if (others.empty()) continue;
    const Event* other = others.front();
    others.pop_front();
    if (const auto kind = compare(&event, other)) {
      return mismatch_of(*kind, rank, static_cast<std::size_t>(event.local), &event, other);
    }
    ++counts.hashes;
  }
  return std::nullopt;
}

using FirstOfRank = std::optional<Mismatch> (*)(const RecordedStep&, const RecordedStep&, RankId,
                                                Counts&);

/// How both stood in front of a difference.
void explain(Divergence& divergence, const Mismatch& mismatch, const RecordedStep& recorded,
             const RecordedStep& found, const Order& order, int stages) {
  auto before = events_before(recorded, mismatch);
  const StepState then = state_of(recorded, before, order, stages);
  for (std::size_t r = 0; r < before.size(); ++r) {
    before[r] = std::min(before[r], found.ranks[r].size());
  }
  divergence.ready_recorded = then.ready[mismatch.rank.index()];
  divergence.ready_found = state_of(found, before, order, stages).ready[mismatch.rank.index()];
  divergence.held = then.held;
  divergence.forwards_waiting = then.forwards_waiting;
  divergence.backwards_waiting = then.backwards_waiting;
}

std::optional<Divergence> first(FirstOfRank of_rank, const RecordedStep& recorded,
                                const RecordedStep& found, const Order& order, int stages,
                                Counts& counts) {
  std::vector<std::optional<Mismatch>> mismatches(recorded.ranks.size());
  for (std::size_t r = 0; r < mismatches.size(); ++r) {
    mismatches[r] = of_rank(recorded, found, RankId(static_cast<int>(r)), counts);
  }
  const Mismatch* earliest = first_of(recorded, mismatches);
  if (earliest == nullptr) return std::nullopt;
  Divergence divergence = locate(recorded, *earliest);
  explain(divergence, *earliest, recorded, found, order, stages);
  return divergence;
}

/// A step that both recordings hold whole, with the same actions, but that ended otherwise.
std::optional<Divergence> other_end(const RecordedStep& recorded, const RecordedStep& found) {
  if (!recorded.complete || !found.complete || recorded.error == found.error) return std::nullopt;
  if (is_stuck(recorded.error) && is_stuck(found.error)) return std::nullopt;
  Mismatch mismatch = at_the_end(recorded);
  mismatch.recorded = recorded.error.empty() ? "the step succeeds" : recorded.error;
  mismatch.found = found.error.empty() ? "the step succeeds" : found.error;
  return locate(recorded, mismatch);
}

}  // namespace

RecordingDiff diff(const Recording& recorded, const Recording& found) {
  const RecordingHeader& a = recorded.header();
  const RecordingHeader& b = found.header();
  if (a.stages != b.stages || a.ranks != b.ranks) {
    throw std::invalid_argument(fmt::format(
        "{} has {} stages on {} ranks, {} has {} on {}; compare recordings of one configuration",
        recorded.file(), a.stages, a.ranks, found.file(), b.stages, b.ranks));
  }

  RecordingDiff result;
  Counts counts;
  const std::size_t steps = std::min(recorded.steps(), found.steps());
  for (std::size_t k = 0; k < steps && (!result.actions || !result.tensors); ++k) {
    const RecordedStep left = recorded.step(k);
    const RecordedStep right = found.step(k);
    const Order order = recorded_order(recorded, k);
    if (!result.actions) {
      result.actions = first(first_action, left, right, order, a.stages, counts);
      if (!result.actions) result.actions = other_end(left, right);
    }
    if (!result.tensors) {
      result.tensors = first(first_tensor, left, right, order, a.stages, counts);
    }
  }

  result.events = counts.events;
  result.of_actions = counts.actions;
  result.hashes = counts.hashes;
  const bool shorter_is_closed =
      recorded.steps() < found.steps() ? recorded.closed() : found.closed();
  if (!result.actions && recorded.steps() != found.steps() && shorter_is_closed) {
    // Told by the end of the last step that both have.
    Divergence divergence;
    divergence.kind = DivergenceClass::count;
    divergence.step = recorded.first_step() + static_cast<std::int64_t>(steps);
    divergence.recorded = fmt::format("{} steps", recorded.steps());
    divergence.found = fmt::format("{} steps", found.steps());
    divergence.message = fmt::format("count differs at step {}\n  recorded: {}\n  found:    {}",
                                     divergence.step, divergence.recorded, divergence.found);
    result.actions = std::move(divergence);
  }

  if (result.actions || result.tensors) {
    result.verdict = Verdict::diverged;
  } else if (!recorded.closed() || !found.closed()) {
    result.verdict = Verdict::recording_ends;
  }
  return result;
}

}  // namespace sluice::replay
