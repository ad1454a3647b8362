#include <sluice/replay/replayer.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <sluice/replay/causal_order.hpp>
#include <sluice/replay/error_text.hpp>
#include <sluice/replay/step_state.hpp>
#include <sluice/step_error.hpp>

namespace sluice::replay {

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::same: return "same";
    case Verdict::diverged: return "diverged";
    case Verdict::failed_as_recorded: return "failed-as-recorded";
    case Verdict::stuck_as_recorded: return "stuck-as-recorded";
    case Verdict::recording_ends: return "recording-ends";
    case Verdict::failed_live: return "failed-live";
    case Verdict::nothing_replayed: return "nothing-replayed";
    case Verdict::refused: return "refused";
  }
  return "";
}

Replayer::Replayer(std::shared_ptr<const Recording> recording, const Plan& plan,
                   std::shared_ptr<Director> inner, ReplayOptions options)
    : recording_(std::move(recording)), inner_(std::move(inner)), options_(std::move(options)) {
  const RecordingHeader& header = recording_->header();
  if (plan.stages != header.stages || plan.ranks != header.ranks) {
    throw std::invalid_argument(fmt::format(
        "{}: recorded with {} stages on {} ranks, the plan has {} on {}; replay with the recorded "
        "configuration",
        recording_->file(), header.stages, header.ranks, plan.stages, plan.ranks));
  }
  if (options_.until && options_.then == HandOver::live && !inner_) {
    throw std::invalid_argument(
        "Replayer: nobody to hand over to; give it a LiveDirector, or let it stop at the point");
  }
}

std::unique_ptr<RankDirector> Replayer::for_rank(const Plan& plan, RankId rank, std::int64_t step) {
  if (divergence_) throw std::runtime_error("the replay has diverged: " + divergence_->message);
  if (reached_ && options_.then == HandOver::live) return inner_->for_rank(plan, rank, step);
  if (reached_) {
    throw std::runtime_error(stopped_before(*options_.until));
  }
  const std::int64_t next = recording_->first_step() + static_cast<std::int64_t>(steps_);
  if (steps_ == recording_->steps() || step != next) {
    throw std::runtime_error(fmt::format(
        "{}: step {} is asked for, {}", recording_->file(), step,
        steps_ == recording_->steps() ? fmt::format("but the recording ends before step {}", next)
                                      : fmt::format("but step {} comes next", next)));
  }
  if (!step_ || step_->recorded.number != step) {
    const bool here = options_.until && options_.until->step == step;
    step_ = std::make_shared<ReplayedStep>(recording_->step(steps_), plan,
                                           here ? &*options_.until : nullptr, options_.then);
    step_->schedule_only = options_.schedule_only;
    step_->keep_decisions = options_.keep_decisions_in == step;
  }
  return std::make_unique<RankReplayer>(step_, rank,
                                        recording_->header().mode == RecordingMode::verify,
                                        inner_ ? inner_->for_rank(plan, rank, step) : nullptr);
}

/// A run that was cancelled between its last action and its update did all that it does here, and
/// nothing says so but its error.
void Replayer::before_commit(std::int64_t step) {
  if (step_ && step_->recorded.complete && is_from_outside(step_->recorded.error)) {
    throw std::runtime_error("as recorded: " + step_->recorded.error);
  }
  if (step_ && step_->point && step_->then == HandOver::stop) {
    throw std::runtime_error(stopped_before(*step_->point));
  }
  if (inner_) inner_->before_commit(step);
}

void Replayer::step_ended(const StepEnd& end) {
  if (step_) conclude(end);
  if (reached_ && options_.then == HandOver::live && end.error != nullptr) failed_live_ = true;
  if (inner_) inner_->step_ended(end);
}

void Replayer::conclude(const StepEnd& end) {
  const std::shared_ptr<ReplayedStep> step = std::exchange(step_, nullptr);
  const RecordedStep& recorded = step->recorded;
  count(*step);
  std::vector<std::optional<Mismatch>> mismatches;
  for (std::size_t r = 0; r < recorded.ranks.size(); ++r) {
    const auto& events = recorded.ranks[r];
    const auto& of_rank = step->ranks[r];
    mismatches.push_back(of_rank.mismatch);
    if (!of_rank.mismatch && of_rank.agreed < events.size()) {
      mismatches.back() = mismatch_of(DivergenceClass::count, RankId(static_cast<int>(r)),
                                      of_rank.agreed, &events[of_rank.agreed], nullptr);
    }
  }
  ++steps_;
  last_error_ = recorded.error;
  reached_ = step->point && options_.then != HandOver::resume;
  ends_inside_ = !recorded.complete && !reached_;
  if (const Mismatch* first = first_of(recorded, mismatches)) {
    diverge(*step, *first);
    return;
  }
  if (!recorded.complete) return;

  const std::string_view error = end.error != nullptr ? end.error->what() : "";
  const std::string_view found = recorded_part(error);
  // The text of a stuck step is its wait graph, in which stubs have no credits to show.
  const bool as_recorded = found == recorded.error ||
                           (step->schedule_only && is_stuck(found) && is_stuck(recorded.error)) ||
                           (!found.empty() && is_from_outside(recorded.error));
  Mismatch mismatch = at_the_end(recorded);
  if (as_recorded) {
    // No divergence is silent: an output that cannot be compared any more is one, and so is an event
    // that came of other causes.
    std::vector<std::optional<Mismatch>> suspicious;
    for (const auto& of_rank : step->ranks) suspicious.push_back(of_rank.suspicious);
    if (const Mismatch* first = first_of(recorded, suspicious)) {
      diverge(*step, *first);
      return;
    }
    const bool compared = recorded.result && end.result != nullptr && !step->schedule_only &&
                          recording_->header().mode == RecordingMode::verify;
    if (!compared || *recorded.result == result_of(*end.result)) return;
    mismatch.kind = DivergenceClass::result;
    mismatch.recorded = to_string(*recorded.result);
    mismatch.found = to_string(result_of(*end.result));
    diverge(*step, mismatch);
    return;
  }
  mismatch.recorded = recorded.error.empty() ? "the step succeeds" : recorded.error;
  mismatch.found = found.empty() ? "the step succeeds" : std::string(found);
  diverge(*step, mismatch);
}

void Replayer::count(const ReplayedStep& step) {
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const auto& of_rank = step.ranks[r];
    const auto& events = step.recorded.ranks[r];
    events_ += static_cast<std::int64_t>(of_rank.agreed);
    hashes_ += of_rank.hashes;
    outside_values_ += of_rank.outside;
    std::int64_t results = 0;
    for (std::size_t i = 0; i < of_rank.agreed; ++i) {
      actions_ += events[i].kind == Event::Kind::enter;
      results += events[i].kind == Event::Kind::exit || events[i].kind == Event::Kind::committed;
    }
    unhashed_ += results - of_rank.hashes;
    const auto& outside = step.recorded.outside[r];
    for (std::int64_t i = 0; i < of_rank.outside; ++i) {
      outside_names_.insert(outside[static_cast<std::size_t>(i)].name);
    }
  }
}

void Replayer::diverge(const ReplayedStep& step, const Mismatch& mismatch) {
  divergence_ = locate(step.recorded, mismatch);
  const auto before = events_before(step.recorded, mismatch);
  const StepState state = state_of(step.recorded, before, step.order, recording_->header().stages);
  const std::size_t rank = mismatch.rank.index();
  divergence_->ready_recorded = state.ready[rank];
  divergence_->ready_found = step.ranks[rank].ready;
  divergence_->held = state.held;
  divergence_->credits = step.credits;
  divergence_->forwards_waiting = state.forwards_waiting;
  divergence_->backwards_waiting = state.backwards_waiting;
  divergence_->suspicious = first_suspicious(step, before);

  std::int64_t seq = step.recorded.first_seq;
  for (const Event& event : merge_events(step.recorded.ranks)) {
    if (!is_logged(event)) continue;
    const auto& kept = step.ranks[event.rank.index()].decisions;
    const auto decision = std::find_if(
        kept.begin(), kept.end(), [&](const Decision& each) { return each.local == event.local; });
    const bool earlier = static_cast<std::size_t>(event.local) < before[event.rank.index()];
    if (decision != kept.end() && earlier) {
      decisions_.push_back(*decision);
      decisions_.back().seq = seq;
    }
    ++seq;
  }
  if (decisions_.size() > decisions_kept) {
    decisions_.erase(decisions_.begin(),
                     decisions_.end() - static_cast<std::ptrdiff_t>(decisions_kept));
  }
}

Verdict Replayer::verdict() const {
  if (divergence_) return Verdict::diverged;
  if (reached_) return failed_live_ ? Verdict::failed_live : Verdict::same;
  const bool all = steps_ == recording_->steps();
  if (steps_ == 0 && (!all || recording_->closed())) return Verdict::nothing_replayed;
  if (all && (!recording_->closed() || ends_inside_)) return Verdict::recording_ends;
  if (is_stuck(last_error_)) return Verdict::stuck_as_recorded;
  if (!last_error_.empty()) return Verdict::failed_as_recorded;
  return Verdict::same;
}

std::string coverage_of(const Replayer& replayer, std::span<const std::string> unrecorded) {
  std::string text = fmt::format("compared: the order of {} actions", replayer.actions());
  if (replayer.hashes() > 0) {
    text += fmt::format("; {} outputs and states, bit by bit\n", replayer.hashes());
  } else if (replayer.divergence()) {
    text += "\nno output and no state was found equal before the difference\n";
  } else {
    text += "\nvalues not compared: no output and no state has a hash on both sides\n";
  }
  if (replayer.hashes() > 0 && replayer.unhashed() > 0) {
    text +=
        fmt::format("not compared: {} outputs and states without a hash\n", replayer.unhashed());
  }
  if (replayer.outside_values() > 0) {
    text += fmt::format("from the recording: {} values from outside ({})\n",
                        replayer.outside_values(), fmt::join(replayer.outside_names(), ", "));
  }
  if (!unrecorded.empty()) {
    text += fmt::format("not recorded, as declared: {}\n", fmt::join(unrecorded, ", "));
  }
  return text +
         "of what stages read in other ways nothing is known\n"
         "decided by the recording alone: seeds, threads and policies here are ignored\n";
}

}  // namespace sluice::replay
