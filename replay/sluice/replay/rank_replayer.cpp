#include <sluice/replay/rank_replayer.hpp>

#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <sluice/replay/error_text.hpp>
#include <sluice/replay/step_state.hpp>
#include <sluice/replay/stop_here.hpp>
#include <sluice/step_error.hpp>

namespace sluice::replay {

ReplayedStep::ReplayedStep(RecordedStep step, const Plan& plan, const ReplayPoint* cut,
                           HandOver what_then)
    : recorded(std::move(step)),
      ranks(recorded.ranks.size()),
      order(plan.order),
      credits(plan.credits),
      then(what_then),
      ranks_to_come(recorded.ranks.size()) {
  if (cut == nullptr) return;
  point = *cut;
  const auto before = events_before(recorded, *cut);
  event_at_point = before[cut->rank.index()];
  if (then == HandOver::resume) return;
  for (std::size_t r = 0; r < ranks.size(); ++r) recorded.ranks[r].resize(before[r]);
  recorded.complete = false;
  recorded.error.clear();
}

std::string first_suspicious(const ReplayedStep& step, const std::vector<std::size_t>& before) {
  const std::string* first = nullptr;
  std::pair<std::int64_t, std::size_t> earliest;
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const auto& suspicious = step.ranks[r].suspicious;
    if (!suspicious || suspicious->local >= before[r]) continue;
    const std::pair place(step.recorded.ranks[r][suspicious->local].lamport, r);
    if (first != nullptr && earliest < place) continue;
    first = &suspicious->found;
    earliest = place;
  }
  return first == nullptr ? std::string() : *first;
}

RankReplayer::RankReplayer(std::shared_ptr<ReplayedStep> step, RankId rank, bool verify,
                           std::unique_ptr<RankDirector> inner)
    : step_(std::move(step)),
      rank_(rank),
      verify_(verify),
      inner_(std::move(inner)),
      mine_(step_->ranks[rank.index()]) {}

std::size_t RankReplayer::choose(const ChoicePoint& point, std::span<const Option> options) {
  const bool may_stop = options.back().kind == Option::Kind::stop;
  const std::size_t stop = options.size() - 1;
  const std::size_t wait = may_stop ? stop - 1 : stop;
  const ReadyView ready(options.first(wait));
  const Event* next = expected();
  remember(ready);

  if (!mine_.mismatch && next != nullptr && next->kind == Event::Kind::enter) {
    const auto index = ready.find(next->action);
    if (!index) return wait;
    if (step_->then == HandOver::resume && step_->point && step_->point->rank == rank_ &&
        mine_.agreed == step_->event_at_point) {
      reached_the_point();
    }
    decided(next->action);
    return *index;
  }
  const bool ends_here = next == nullptr && !step_->recorded.complete;
  if (!mine_.mismatch && ends_here && step_->point) {
    reached_the_point();
    if (step_->then == HandOver::live) {
      live_ = true;
      return inner_->choose(point, options);
    }
  }
  if (!mine_.mismatch && !ends_here && (next == nullptr || next->kind != Event::Kind::stopped)) {
    found_more_actions();
  }
  if (may_stop) return stop;
  if (mine_.mismatch) diverged();
  if (ends_here) {
    throw std::runtime_error(step_->point ? stopped_before(*step_->point)
                                          : std::string("the recording ends here"));
  }
  const std::string& error = step_->recorded.error;
  if (is_from_outside(error)) throw std::runtime_error("as recorded: " + error);
  return wait;  // the recorded error is still to come
}

void RankReplayer::observe(const Event& event) {
  if (step_->then == HandOver::resume && step_->point && step_->point->ends &&
      step_->point->rank == rank_ && mine_.agreed == step_->event_at_point) {
    reached_the_point();
  }
  const Event* recorded = expected();
  compare_with_recorded(event);
  // Whoever has nothing left to do may not be asked again.
  if (event.kind != Event::Kind::enter && expected() == nullptr && step_->point &&
      step_->then != HandOver::resume && !mine_.mismatch) {
    reached_the_point();
  }
  if (!inner_) return;
  Event told = event;
  if (step_->schedule_only && recorded != nullptr && recorded->hashed) {
    told.hash = recorded->hash;
    told.hashed = true;
  }
  inner_->observe(told);
}

std::string RankReplayer::outside(const OutsideValue& value,
                                  const std::function<std::string()>& read) {
  if (live_) return read();
  const RecordedOutside* next = next_outside();
  if (next != nullptr && next->action == value.action && next->name == value.name) {
    ++outside_read_;
    ++mine_.outside;
    if (next->failed) throw std::runtime_error(next->bytes);
    return next->bytes;
  }
  // Where the recording ends inside the action, values may be missing as well.
  if (next == nullptr && !step_->recorded.complete && expected() == nullptr) return read();
  if (!mine_.mismatch) outside_differs(value.action, fmt::format("reads `{}`", value.name));
  diverged();
}

bool RankReplayer::wants_hashes() const {
  if (step_->schedule_only) return false;
  return verify_ || (inner_ && inner_->wants_hashes());
}

void RankReplayer::compare_with_recorded(const Event& event) {
  if (mine_.mismatch) return;
  const Event* recorded = expected();
  if (recorded == nullptr && !step_->recorded.complete) return;  // beyond the recording's end
  if (!step_->schedule_only &&
      (event.kind == Event::Kind::exit || event.kind == Event::Kind::failed)) {
    const RecordedOutside* unread = next_outside();
    if (unread != nullptr && unread->action == event.action) {
      outside_differs(event.action, "ends without reading it");
      return;
    }
  }
  if (const auto kind = compare(recorded, &event); kind && !is_outcome(recorded, &event)) {
    mine_.mismatch = mismatch_of(*kind, rank_, mine_.agreed, recorded, &event);
    if (recorded != nullptr && recorded->kind == Event::Kind::enter) {
      mine_.mismatch->found = fmt::format("never possible; ready: {}", list_of(mine_.ready));
    }
    return;
  }
  suspect(*recorded, event);
  ++mine_.agreed;
  if (recorded->hashed && event.hashed) ++mine_.hashes;
}

/// What a difference that comes later may come from.
void RankReplayer::suspect(const Event& recorded, const Event& found) {
  if (mine_.suspicious) return;
  const auto differs = [&](DivergenceClass kind, std::string what) {
    mine_.suspicious = mismatch_of(kind, rank_, mine_.agreed, &recorded, &found);
    mine_.suspicious->found = fmt::format("{} {}", to_string(found), what);
  };
  if (recorded.hashed && !found.hashed && verify_ && !step_->schedule_only) {
    differs(recorded.kind == Event::Kind::exit ? DivergenceClass::tensor : DivergenceClass::state,
            "has no hash now: its stage promises bits no longer");
  } else if (found.kind == Event::Kind::aborted && found.hashed) {
    differs(DivergenceClass::state, "has a hash now");
  } else if (found.rank != rank_ || (found.step != recorded.step && !step_->schedule_only)) {
    differs(DivergenceClass::action,
            fmt::format("is told to be of rank {}, step {}", found.rank.value, found.step));
  } else if (recorded.lamport != found.lamport && found.kind != Event::Kind::stopped) {
    differs(DivergenceClass::action,
            fmt::format("came of other causes: its logical clock is {}, recorded {}", found.lamport,
                        recorded.lamport));
  }
}

/// The next recorded value from outside; null when none is left.
const RecordedOutside* RankReplayer::next_outside() const {
  const auto& recorded = step_->recorded.outside[rank_.index()];
  return outside_read_ < recorded.size() ? &recorded[outside_read_] : nullptr;
}

void RankReplayer::outside_differs(const Action& action, std::string_view found) {
  const RecordedOutside* next = next_outside();
  mine_.mismatch = mismatch_of(DivergenceClass::outside, rank_, mine_.agreed, nullptr, nullptr);
  mine_.mismatch->action = action;
  mine_.mismatch->recorded =
      next == nullptr ? "no further value from outside"
                      : fmt::format("{} reads `{}`", to_string(next->action), next->name);
  mine_.mismatch->found = fmt::format("{} {}", to_string(action), found);
}

void RankReplayer::found_more_actions() {
  mine_.mismatch = mismatch_of(DivergenceClass::count, rank_, mine_.agreed, expected(), nullptr);
  mine_.mismatch->found = fmt::format("more actions to run; ready: {}", list_of(mine_.ready));
}

/// Ends the step, and says so in its error: what failed is neither the runtime nor, in itself, the step.
/// Where several ranks differ, whoever comes first; the first by cause is known at the step's end.
void RankReplayer::diverged() const {
  const std::string all = locate(step_->recorded, *mine_.mismatch).message;
  throw StepError(StepError::Kind::runtime_failed,
                  "the replay has diverged from its recording: " + all.substr(0, all.find('\n')));
}

void RankReplayer::remember(const ReadyView& ready) {
  if (mine_.mismatch) return;
  mine_.ready.clear();
  for (std::size_t i = 0; i < ready.size(); ++i) mine_.ready.push_back(ready[i]);
}

void RankReplayer::decided(const Action& action) {
  if (!step_->keep_decisions) return;
  Decision decision;
  decision.local = static_cast<std::int64_t>(mine_.agreed);
  decision.rank = rank_;
  decision.action = action;
  decision.ready = mine_.ready;
  mine_.decisions.push_back(std::move(decision));
  if (mine_.decisions.size() > decisions_kept) mine_.decisions.pop_front();
}

/// Tells a debugger: to stop, when all ranks are there; to go on, when the rank is that stands at it.
void RankReplayer::reached_the_point() {
  if (std::exchange(at_the_point_, true)) return;
  const bool last = step_->ranks_to_come.fetch_sub(1) == 1;
  const bool here = step_->point->rank == rank_;
  if (step_->then == HandOver::stop ? last : here) {
    sluice_stop_here(to_string(*step_->point).c_str());
  }
}

}  // namespace sluice::replay
