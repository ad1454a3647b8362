#include <sluice/replay/divergence.hpp>

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include <sluice/replay/causal_order.hpp>
#include <sluice/replay/step_state.hpp>

namespace sluice::replay {
namespace {

/// Lamport, rank, local: the order of the text log.
using Place = std::tuple<std::int64_t, RankId, std::int64_t>;

Place place_of(const Event& event) { return {event.lamport, event.rank, event.local}; }

Place place_of(const RecordedStep& step, const Mismatch& mismatch) {
  const auto& events = step.ranks[mismatch.rank.index()];
  if (mismatch.local < events.size()) return place_of(events[mismatch.local]);
  const std::int64_t last = events.empty() ? 0 : events.back().lamport;
  return {last + 1, mismatch.rank, static_cast<std::int64_t>(mismatch.local)};
}

std::string_view likely_cause(DivergenceClass kind) {
  switch (kind) {
    case DivergenceClass::action:
    case DivergenceClass::count:
      return "another plan, another number of microbatches, or a changed runtime";
    case DivergenceClass::tensor:
      return "other weights, data or kernels (compare the identities), or a stage whose numbers "
             "depend on timing";
    case DivergenceClass::state:
      return "another optimizer or its settings, or a stage whose numbers depend on timing";
    case DivergenceClass::outside:
      return "a changed program: it reads other values, or in another order";
    case DivergenceClass::result:
      return "another loss function or another target, or what the last stage reports depends on "
             "timing";
    case DivergenceClass::failure: return "a cause outside the recording, or a changed program";
  }
  return "";
}

}  // namespace

std::string_view to_string(DivergenceClass kind) {
  switch (kind) {
    case DivergenceClass::action: return "action";
    case DivergenceClass::count: return "count";
    case DivergenceClass::tensor: return "tensor";
    case DivergenceClass::state: return "state";
    case DivergenceClass::outside: return "outside";
    case DivergenceClass::result: return "result";
    case DivergenceClass::failure: return "failure";
  }
  return "";
}

std::string to_string(const Event& event) {
  const int stage = event.action.stage.value;
  switch (event.kind) {
    case Event::Kind::enter: return fmt::format("enter {}", to_string(event.action));
    case Event::Kind::exit:
      if (!event.hashed) return fmt::format("exit {}", to_string(event.action));
      return fmt::format("exit {} with output {:016x}", to_string(event.action), event.hash);
    case Event::Kind::failed: return fmt::format("{} failed", to_string(event.action));
    case Event::Kind::stopped: return "stopped";
    case Event::Kind::committed:
      if (!event.hashed) return fmt::format("committed stage {}", stage);
      return fmt::format("committed stage {} with state {:016x}", stage, event.hash);
    case Event::Kind::aborted: return fmt::format("aborted stage {}", stage);
  }
  return "";
}

std::optional<DivergenceClass> compare(const Event* recorded, const Event* found) {
  using Kind = Event::Kind;
  if (recorded == nullptr && found == nullptr) return std::nullopt;
  if (recorded == nullptr || found == nullptr) return DivergenceClass::count;
  if (recorded->kind != found->kind) {
    if (recorded->kind == Kind::enter) return DivergenceClass::action;
    if (found->kind == Kind::enter) return DivergenceClass::count;
    return DivergenceClass::failure;
  }
  if (recorded->action != found->action) return DivergenceClass::action;
  if (recorded->hashed && found->hashed && recorded->hash != found->hash) {
    return recorded->kind == Kind::exit ? DivergenceClass::tensor : DivergenceClass::state;
  }
  return std::nullopt;
}

bool is_outcome(const Event* recorded, const Event* found) {
  if (recorded == nullptr || found == nullptr || recorded->kind == found->kind) return false;
  const auto concludes = [](const Event* event) {
    return event->kind == Event::Kind::committed || event->kind == Event::Kind::aborted;
  };
  return concludes(recorded) && concludes(found);
}

Mismatch mismatch_of(DivergenceClass kind, RankId rank, std::size_t local, const Event* recorded,
                     const Event* found) {
  Mismatch mismatch;
  mismatch.kind = kind;
  mismatch.rank = rank;
  mismatch.local = local;
  const Event* subject = recorded != nullptr ? recorded : found;
  if (subject != nullptr && subject->kind != Event::Kind::stopped) {
    mismatch.action = subject->action;
  } else if (found != nullptr && found->kind != Event::Kind::stopped) {
    mismatch.action = found->action;
  }
  mismatch.recorded = recorded != nullptr ? to_string(*recorded) : "nothing more";
  mismatch.found = found != nullptr ? to_string(*found) : "nothing more";
  return mismatch;
}

Mismatch at_the_end(const RecordedStep& step) {
  Mismatch mismatch;
  mismatch.kind = DivergenceClass::failure;
  std::int64_t last = -1;
  for (const auto& events : step.ranks) {
    for (const Event& event : events) {
      if (event.kind == Event::Kind::failed) mismatch.action = event.action;
    }
    if (events.empty() || events.back().lamport < last) continue;
    last = events.back().lamport;
    mismatch.rank = events.back().rank;
    mismatch.local = events.size();
  }
  return mismatch;
}

const Mismatch* first_of(const RecordedStep& step,
                         std::span<const std::optional<Mismatch>> mismatches) {
  const Mismatch* first = nullptr;
  for (const auto& mismatch : mismatches) {
    if (!mismatch) continue;
    if (first == nullptr || place_of(step, *mismatch) < place_of(step, *first)) first = &*mismatch;
  }
  return first;
}

std::vector<std::size_t> events_before(const RecordedStep& step, const Mismatch& mismatch) {
  const Place place = place_of(step, mismatch);
  std::vector<std::size_t> before;
  for (const auto& events : step.ranks) {
    const auto behind = std::find_if(events.begin(), events.end(),
                                     [&](const Event& event) { return place_of(event) >= place; });
    before.push_back(static_cast<std::size_t>(behind - events.begin()));
  }
  return before;
}

Divergence locate(const RecordedStep& step, const Mismatch& mismatch) {
  Divergence result;
  result.kind = mismatch.kind;
  result.step = step.number;
  result.rank = mismatch.rank;
  result.local = static_cast<std::int64_t>(mismatch.local);
  result.recorded = mismatch.recorded;
  result.found = mismatch.found;

  const Place place = place_of(step, mismatch);
  const Event* last = nullptr;
  result.seq = step.first_seq;
  for (const auto& events : step.ranks) {
    for (const Event& event : events) {
      if (place_of(event) >= place) break;
      if (is_logged(event)) ++result.seq;
      if (last == nullptr || place_of(*last) < place_of(event)) last = &event;
    }
  }
  if (last != nullptr) {
    result.last_agreeing = fmt::format("{} (rank {})", to_string(*last), last->rank.value);
  }

  std::string where = fmt::format("step {}, seq {}, rank {} (its event {})", result.step,
                                  result.seq, result.rank.value, result.local);
  if (mismatch.action) {
    result.stage = mismatch.action->stage;
    where += fmt::format(", stage {}", result.stage->value);
    if (mismatch.kind != DivergenceClass::state) {
      result.mb = mismatch.action->mb;
      result.phase = mismatch.action->phase;
      where += fmt::format(", mb {}, {}", result.mb->value, letter(*result.phase));
    }
  }
  result.message = fmt::format(
      "{} differs at {}\n  recorded: {}\n  found:    {}\n  last agreeing event: {}\n  likely: {}",
      to_string(result.kind), where, result.recorded, result.found,
      result.last_agreeing.empty() ? "none in this step" : result.last_agreeing,
      likely_cause(result.kind));
  return result;
}

std::string circumstances_of(const Divergence& divergence) {
  if (divergence.held.empty()) return "";
  std::string text =
      fmt::format("  ready on rank {}: {}\n  held by stage: {}", divergence.rank.value,
                  compare_ready(divergence.ready_recorded, divergence.ready_found),
                  fmt::join(divergence.held, ","));
  text += divergence.credits.empty()
              ? "\n"
              : fmt::format(" of {} credits\n", fmt::join(divergence.credits, ","));
  text += fmt::format("  waiting for stage: forwards {}, backwards {}\n",
                      fmt::join(divergence.forwards_waiting, ","),
                      fmt::join(divergence.backwards_waiting, ","));
  return text + fmt::format("  earlier and suspicious: {}\n",
                            divergence.suspicious.empty() ? "nothing" : divergence.suspicious);
}

}  // namespace sluice::replay
