#include <sluice/replay/replayer.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/replay/error_text.hpp>
#include <sluice/step_error.hpp>

namespace sluice::replay {

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::same: return "same";
    case Verdict::diverged: return "diverged";
    case Verdict::failed_as_recorded: return "failed-as-recorded";
    case Verdict::stuck_as_recorded: return "stuck-as-recorded";
    case Verdict::recording_ends: return "recording-ends";
    case Verdict::refused: return "refused";
  }
  return "";
}

/// One step under replay. Each rank writes its own parts; they are read when all are done.
struct Replayer::Step {
  RecordedStep recorded;
  std::vector<std::size_t> agreed;  // per rank: events
  std::vector<std::int64_t> hashes;
  std::vector<std::optional<Mismatch>> mismatches;

  explicit Step(RecordedStep step) : recorded(std::move(step)) {
    agreed.resize(recorded.ranks.size());
    hashes.resize(recorded.ranks.size());
    mismatches.resize(recorded.ranks.size());
  }
};

/// One rank in one step.
class Replayer::Rank final : public RankDirector {
 public:
  Rank(std::shared_ptr<Step> step, RankId rank, bool verify, std::unique_ptr<RankDirector> inner)
      : step_(std::move(step)),
        rank_(rank),
        verify_(verify),
        inner_(std::move(inner)),
        agreed_(step_->agreed[rank.index()]),
        mismatch_(step_->mismatches[rank.index()]) {}

  std::size_t choose(const ChoicePoint&, std::span<const Option> options) override {
    const bool may_stop = options.back().kind == Option::Kind::stop;
    const std::size_t stop = options.size() - 1;
    const std::size_t wait = may_stop ? stop - 1 : stop;
    const ReadyView ready(options.first(wait));
    const Event* next = expected();

    if (!mismatch_ && next != nullptr && next->kind == Event::Kind::enter) {
      remember(ready);
      const auto index = ready.find(next->action);
      return index && (may_stop || !must_fail_later()) ? *index : wait;
    }
    const bool ends_here = next == nullptr && !step_->recorded.complete;
    if (!mismatch_ && !ends_here && (next == nullptr || next->kind != Event::Kind::stopped)) {
      found_more_actions(ready);
    }
    if (may_stop) return stop;
    if (mismatch_) throw std::runtime_error("the replay has diverged from its recording");
    if (ends_here) throw std::runtime_error("the recording ends here");
    const std::string& error = step_->recorded.error;
    if (is_from_outside(error)) throw std::runtime_error("as recorded: " + error);
    return wait;  // the recorded error is still to come
  }

  void observe(const Event& event) override {
    compare_with_recorded(event);
    if (inner_) inner_->observe(event);
  }

  /// What the recorded run read, without asking the outside.
  std::string outside(const OutsideValue& value,
                      const std::function<std::string()>& read) override {
    const RecordedOutside* next = next_outside();
    if (next != nullptr && next->action == value.action && next->name == value.name) {
      ++outside_read_;
      if (next->failed) throw std::runtime_error(next->bytes);
      return next->bytes;
    }
    // Where the recording ends inside the action, values may be missing as well.
    if (next == nullptr && !step_->recorded.complete && expected() == nullptr) return read();
    if (!mismatch_) outside_differs(value.action, fmt::format("reads `{}`", value.name));
    throw std::runtime_error("the replay has diverged from its recording");
  }

  bool wants_hashes() const override { return verify_ || (inner_ && inner_->wants_hashes()); }

 private:
  const std::vector<Event>& events() const { return step_->recorded.ranks[rank_.index()]; }

  /// The next recorded event; null where the recorded sequence has ended.
  const Event* expected() const { return agreed_ < events().size() ? &events()[agreed_] : nullptr; }

  /// Of several failures the recorded one has to come first again. This action failed after it, so
  /// it starts when that error has been seen.
  bool must_fail_later() const {
    if (agreed_ + 1 >= events().size()) return false;
    const Event& end = events()[agreed_ + 1];
    return end.kind == Event::Kind::failed && step_->recorded.complete &&
           !names(step_->recorded.error, end.action);
  }

  void compare_with_recorded(const Event& event) {
    if (mismatch_) return;
    const Event* recorded = expected();
    if (recorded == nullptr && !step_->recorded.complete) return;  // beyond the recording's end
    if (event.kind == Event::Kind::exit || event.kind == Event::Kind::failed) {
      const RecordedOutside* unread = next_outside();
      if (unread != nullptr && unread->action == event.action) {
        outside_differs(event.action, "ends without reading it");
        return;
      }
    }
    if (const auto kind = compare(recorded, &event); kind && !is_outcome(recorded, &event)) {
      mismatch_ = mismatch_of(*kind, rank_, agreed_, recorded, &event);
      if (recorded != nullptr && recorded->kind == Event::Kind::enter) {
        mismatch_->found = fmt::format("never possible; ready: {}", list_of(ready_));
      }
      return;
    }
    ++agreed_;
    if (recorded->hashed && event.hashed) ++step_->hashes[rank_.index()];
  }

  /// The next recorded value from outside; null when none is left.
  const RecordedOutside* next_outside() const {
    const auto& recorded = step_->recorded.outside[rank_.index()];
    return outside_read_ < recorded.size() ? &recorded[outside_read_] : nullptr;
  }

  void outside_differs(const Action& action, std::string_view found) {
    const RecordedOutside* next = next_outside();
    mismatch_ = mismatch_of(DivergenceClass::outside, rank_, agreed_, nullptr, nullptr);
    mismatch_->action = action;
    mismatch_->recorded = next == nullptr
                              ? "no further value from outside"
                              : fmt::format("{} reads `{}`", to_string(next->action), next->name);
    mismatch_->found = fmt::format("{} {}", to_string(action), found);
  }

  void found_more_actions(const ReadyView& ready) {
    remember(ready);
    mismatch_ = mismatch_of(DivergenceClass::count, rank_, agreed_, expected(), nullptr);
    mismatch_->found = fmt::format("more actions to run; ready: {}", list_of(ready_));
  }

  void remember(const ReadyView& ready) {
    ready_.clear();
    for (std::size_t i = 0; i < ready.size(); ++i) ready_.push_back(ready[i]);
  }

  static std::string list_of(const std::vector<Action>& actions) {
    std::string list;
    for (const Action& action : actions) {
      if (!list.empty()) list += ' ';
      list += to_string(action);
    }
    return list.empty() ? "nothing" : list;
  }

  std::shared_ptr<Step> step_;
  RankId rank_;
  bool verify_;
  std::unique_ptr<RankDirector> inner_;
  std::size_t& agreed_;
  std::optional<Mismatch>& mismatch_;
  std::size_t outside_read_ = 0;
  std::vector<Action> ready_;  // at the last choice
};

Replayer::Replayer(std::shared_ptr<const Recording> recording, const Plan& plan,
                   std::shared_ptr<Director> inner)
    : recording_(std::move(recording)), inner_(std::move(inner)) {
  const RecordingHeader& header = recording_->header();
  if (plan.stages != header.stages || plan.ranks != header.ranks) {
    throw std::invalid_argument(fmt::format(
        "{}: recorded with {} stages on {} ranks, the plan has {} on {}; replay with the recorded "
        "configuration",
        recording_->file(), header.stages, header.ranks, plan.stages, plan.ranks));
  }
}

std::unique_ptr<RankDirector> Replayer::for_rank(const Plan& plan, RankId rank, std::int64_t step) {
  if (divergence_) throw std::runtime_error("the replay has diverged: " + divergence_->message);
  const std::int64_t next = recording_->first_step() + static_cast<std::int64_t>(steps_);
  if (steps_ == recording_->steps() || step != next) {
    throw std::runtime_error(fmt::format(
        "{}: step {} is asked for, {}", recording_->file(), step,
        steps_ == recording_->steps() ? fmt::format("but the recording ends before step {}", next)
                                      : fmt::format("but step {} comes next", next)));
  }
  if (!step_ || step_->recorded.number != step) {
    step_ = std::make_shared<Step>(recording_->step(steps_));
  }
  return std::make_unique<Rank>(step_, rank, recording_->header().mode == RecordingMode::verify,
                                inner_ ? inner_->for_rank(plan, rank, step) : nullptr);
}

/// A run that was cancelled between its last action and its update did all that it does here, and
/// nothing says so but its error.
void Replayer::before_commit(std::int64_t step) {
  if (step_ && step_->recorded.complete && is_from_outside(step_->recorded.error)) {
    throw std::runtime_error("as recorded: " + step_->recorded.error);
  }
  if (inner_) inner_->before_commit(step);
}

void Replayer::step_ended(const StepEnd& end) {
  conclude(end.error != nullptr ? end.error->what() : "");
  if (inner_) inner_->step_ended(end);
}

void Replayer::conclude(std::string_view error) {
  const std::shared_ptr<Step> step = std::exchange(step_, nullptr);
  const RecordedStep& recorded = step->recorded;
  for (std::size_t r = 0; r < recorded.ranks.size(); ++r) {
    const auto& events = recorded.ranks[r];
    const std::size_t agreed = step->agreed[r];
    events_ += static_cast<std::int64_t>(agreed);
    actions_ += std::count_if(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(agreed),
                              [](const Event& e) { return e.kind == Event::Kind::enter; });
    hashes_ += step->hashes[r];
    if (!step->mismatches[r] && agreed < events.size()) {
      step->mismatches[r] = mismatch_of(DivergenceClass::count, RankId(static_cast<int>(r)), agreed,
                                        &events[agreed], nullptr);
    }
  }
  ++steps_;
  last_error_ = recorded.error;
  ends_inside_ = !recorded.complete;
  if (const Mismatch* first = first_of(recorded, step->mismatches)) {
    divergence_ = locate(recorded, *first);
    return;
  }
  if (!recorded.complete) return;

  const std::string_view found = recorded_part(error);
  const bool as_recorded = found == recorded.error ||
                           (is_stuck(found) && is_stuck(recorded.error)) ||
                           (!found.empty() && is_from_outside(recorded.error));
  if (as_recorded) return;
  Mismatch mismatch = at_the_end(recorded);
  mismatch.recorded = recorded.error.empty() ? "the step succeeds" : recorded.error;
  mismatch.found = found.empty() ? "the step succeeds" : std::string(found);
  divergence_ = locate(recorded, mismatch);
}

Verdict Replayer::verdict() const {
  if (divergence_) return Verdict::diverged;
  const bool all = steps_ == recording_->steps();
  if (all && (!recording_->closed() || ends_inside_)) return Verdict::recording_ends;
  if (is_stuck(last_error_)) return Verdict::stuck_as_recorded;
  if (!last_error_.empty()) return Verdict::failed_as_recorded;
  return Verdict::same;
}

}  // namespace sluice::replay
