// The judge when nothing more comes: what was never settled, what is missing, who was never heard of.
#include <sluice/step_judge.hpp>

#include <algorithm>
#include <bit>

namespace sluice {
namespace {

using namespace detail;

StageId stage_at(std::size_t index) { return StageId(static_cast<std::int64_t>(index)); }

}  // namespace

std::optional<Unfinished> StepJudge::finish() {
  settle_never();
  const std::int64_t missing = count_missing();
  if (lost_ == 0) find_silent_stages();
  if (missing <= lost_) return std::nullopt;
  DueOnStages due;
  for (const Turn& turn : turns_) due.push_back(turn.due);
  return unfinished_of(progress_, due, known_.microbatches.value_or(facts_.microbatches));
}

/// What some records were waiting for never came: that is the cause, and they are its consequences.
void StepJudge::settle_never() {
  for (const std::vector<Suspicion>& waited : suspicions_.settle_all()) {
    const Suspicion& first = waited.front();
    const unsigned kind = kind_of_event(first.event);
    const std::uint32_t flags = progress_.flags(first.stage, first.mb);
    const bool entered = (flags & in_of(kind)) != 0;
    const bool skipped = std::any_of(waited.begin(), waited.end(), [](const Suspicion& each) {
      return each.if_late == LogRule::mb_order;
    });
    const LogRule rule = entered                                           ? LogRule::never_exits
                         : facts_.stages[first.stage.index()].records == 0 ? LogRule::stage_silent
                         : skipped                                         ? LogRule::mb_skipped
                                                                           : first.if_late;
    complain(
        rule, first.at, first.last,
        name_of(first.stage, first.mb, entered ? out_of(kind) : in_of(kind), (flags & split) != 0));
    for (std::size_t more = 1; more < waited.size(); ++more) complaints_->count(rule);
  }
}

/// Records that the step still needs, as far as that is known.
std::int64_t StepJudge::count_missing() {
  std::int64_t missing = 0;
  for (const Progress::UnderWay& each : progress_.under_way()) {
    if ((each.flags & everything) == 0) continue;
    missing += std::popcount(whole_of(each.flags) & ~each.flags);
  }
  facts_.whole = missing == 0;
  if (track_) return std::max(missing, 2 * (track_->actions() - entered_));
  if (!facts_.whole || !known_.microbatches) return missing;
  const std::int64_t never = *known_.microbatches - facts_.microbatches;
  return 4 * std::max<std::int64_t>(0, never) * static_cast<std::int64_t>(turns_.size());
}

void StepJudge::find_silent_stages() {
  // Although the one before has filled up what may wait for it.
  for (std::size_t s = 1; track_ && s < turns_.size(); ++s) {
    const Plan& plan = track_->plan();
    const Progress::Stage& before = progress_.stage(stage_at(s - 1));
    const int full = std::min(plan.microbatches, plan.credits[s - 1]);
    if (facts_.stages[s].records > 0 || before.exited[forward] < full) continue;
    if (complaints_->of(LogRule::stage_silent)) continue;
    LogLine at;
    at.record.seq = turns_[s - 1].last.seq;
    at.record.action = Action(stage_at(s), Phase::forward, MicrobatchId(0));
    complain_of_silence(stage_at(s), at);
  }
  // The last one that there is went backward as if it were the last.
  const std::size_t stages = turns_.size();
  if (track_ || stages == 0 || !facts_.whole ||
      static_cast<int>(stages) >= known_.stages.value_or(0)) {
    return;
  }
  LogLine at;
  at.record.seq = turns_.back().last.seq;
  at.record.action = turns_.back().last.action;
  complain_of_silence(stage_at(stages), at);
}

void StepJudge::complain_of_silence(StageId stage, const LogLine& at) {
  complain(LogRule::stage_silent, at, turns_[stage.index() - 1].last,
           to_string(Action(stage, Phase::forward, MicrobatchId(0)), LogRecord::Event::enter));
}

}  // namespace sluice
