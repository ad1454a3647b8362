#include <sluice/step_judge.hpp>

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

// Without a plan: a stage number beyond is a mistake, not a stage.
constexpr std::int32_t most_stages = 1 << 16;
// So many records may wait at once; beyond, each is wrong as it comes.
constexpr std::size_t most_suspicions = 4096;

// What has happened to a microbatch on a stage: enter and exit of each kind of action, in order.
constexpr std::uint32_t forward_in = 1, forward_out = 2;
constexpr std::uint32_t gradient_in = 4, gradient_out = 8;
constexpr std::uint32_t weight_in = 16, weight_out = 32;
constexpr std::uint32_t everything = 63;
constexpr std::uint32_t split = 64;       // the backward comes in two halves
constexpr std::uint32_t held = 128;       // counted as held
constexpr std::uint32_t awaited = 256;    // times an event: a record waits for it
constexpr std::uint32_t assumed = 65536;  // times an event: not seen, but it must have happened

constexpr std::uint32_t in_of(unsigned kind) { return 1U << (2 * kind); }
constexpr std::uint32_t out_of(unsigned kind) { return 2U << (2 * kind); }

constexpr bool finished(std::uint32_t flags) {
  const std::uint32_t needed =
      forward_out | gradient_out | ((flags & split) != 0 ? weight_out : 0U);
  return (flags & needed) == needed;
}

/// What a lane holds while the action runs.
constexpr detail::InFlight::Key running(StageId stage, MicrobatchId mb, unsigned kind) {
  return (detail::InFlight::key_of(stage, mb) << 2U | kind) + 1;
}

/// The action and event behind a bit.
std::string name_of(StageId stage, MicrobatchId mb, std::uint32_t event, bool halves) {
  const Phase phase = event <= forward_out ? Phase::forward
                      : event >= weight_in ? Phase::weight_gradient
                      : halves             ? Phase::input_gradient
                                           : Phase::backward;
  const bool enters = event == forward_in || event == gradient_in || event == weight_in;
  return to_string(Action(stage, phase, mb),
                   enters ? LogRecord::Event::enter : LogRecord::Event::exit);
}

}  // namespace

StepJudge::StepJudge(std::optional<PlanTrack> track, const KnownShape& known,
                     Complaints& complaints)
    : track_(std::move(track)), known_(known), complaints_(&complaints) {
  if (!track_) return;
  const auto stages = static_cast<std::size_t>(track_->plan().stages);
  stages_.resize(stages);
  stage_lanes_.resize(stages);
  facts_.stages.resize(stages);
}

StepJudge::Kind StepJudge::kind_of(Phase phase) {
  return phase == Phase::forward ? forward : phase == Phase::weight_gradient ? weight : gradient;
}

bool StepJudge::record(const LogLine& line) {
  clean_ = true;
  if (!exists(line)) return true;
  const Action& action = line.record.action;
  const std::uint32_t flags = flags_of(action.stage, action.mb);
  if (restarts(line, flags)) return false;
  StageFacts& facts = facts_.stages[action.stage.index()];
  if (facts.records++ == 0) facts.first_phase = action.phase;
  facts_.microbatches = std::max(facts_.microbatches, action.mb.value + 1);
  if (line.record.event == LogRecord::Event::enter) {
    enter(line, flags);
  } else {
    exit(line, flags);
  }
  if (clean_) {
    state_of(action.stage).last = {line.record.seq, action, line.record.event, true};
  }
  return true;
}

/// Ids within the shape, and a stage that stays on its rank.
bool StepJudge::exists(const LogLine& line) {
  const LogRecord& record = line.record;
  const StageId stage = record.action.stage;
  const Plan* plan = track_ ? &track_->plan() : nullptr;
  const std::int32_t stages = known_.stages.value_or(most_stages);
  if (stage.value >= stages) {
    complain(LogRule::unknown_id, line, {}, fmt::format("stage 0 to {}", stages - 1));
    return false;
  }
  if (stage.index() >= stages_.size()) {
    stages_.resize(stage.index() + 1);
    stage_lanes_.resize(stage.index() + 1);
    facts_.stages.resize(stage.index() + 1);
  }
  if (known_.microbatches && record.action.mb.value >= *known_.microbatches) {
    complain(LogRule::unknown_id, line, state_of(stage).last,
             fmt::format("mb 0 to {}", *known_.microbatches - 1));
    return false;
  }
  if (!record.rank) return true;
  if (plan != nullptr && plan->rank_of[stage.index()] != *record.rank) {
    complain(LogRule::unknown_id, line, state_of(stage).last,
             fmt::format("rank {} for stage {}", plan->rank_of[stage.index()].value, stage.value));
    return true;
  }
  auto& rank = facts_.stages[stage.index()].rank;
  if (record.rank->value >= most_stages || (rank && *rank != *record.rank)) {
    complain(LogRule::unknown_id, line, state_of(stage).last,
             rank ? fmt::format("rank {} for stage {}, as before", rank->value, stage.value)
                  : fmt::format("rank 0 to {}", most_stages - 1));
    return true;
  }
  rank = record.rank;
  if (rank->index() >= facts_.ranks.size()) facts_.ranks.resize(rank->index() + 1);
  return true;
}

std::uint32_t StepJudge::flags_of(StageId stage, MicrobatchId mb) const {
  if (stage.index() >= stages_.size()) return 0;
  if (mb.value < stages_[stage.index()].done_below) return everything;
  return in_flight_.get(detail::InFlight::key_of(stage, mb));
}

bool StepJudge::is_last(StageId stage) const { return stage.index() + 1 == stages_.size(); }

bool StepJudge::restarts(const LogLine& line, std::uint32_t flags) const {
  const Action& action = line.record.action;
  return !line.record.step && idle() && action == Action(StageId(0), Phase::forward, action.mb) &&
         action.mb.value == 0 && line.record.event == LogRecord::Event::enter &&
         (flags & forward_in) != 0;
}

void StepJudge::enter(const LogLine& line, std::uint32_t flags) {
  const Action& action = line.record.action;
  const Kind kind = kind_of(action.phase);
  StageState& state = state_of(action.stage);
  const bool whole_again = kind == weight && (flags & gradient_in) != 0 && (flags & split) == 0;
  if ((flags & in_of(kind)) != 0 || whole_again) {
    if ((flags & (assumed * in_of(kind))) != 0) return;  // late, but it was known to be missing
    complain(LogRule::mb_repeated, line, state.last, due_on(action.stage));
    return;
  }
  StageFacts& facts = facts_.stages[action.stage.index()];
  facts.order.add(action);
  if (facts.rank) facts_.ranks[facts.rank->index()].add(action);
  if (kind == forward) {
    check_forward(line);
  } else if (kind == gradient) {
    check_gradient(line, flags);
  } else if ((flags & gradient_out) == 0 && !excuse(action.stage, action.mb, gradient_out)) {
    suspect(action.stage, action.mb, gradient_out, LogRule::backward_order, line);
  }
  check_lane(line);
  check_turn(line);
  happen(action.stage, action.mb, in_of(kind),
         action.phase == Phase::input_gradient || kind == weight ? split : 0U);
  check_pace(line);
}

void StepJudge::check_forward(const LogLine& line) {
  const Action& action = line.record.action;
  if (action.stage.value == 0) return;
  const StageId before = action.stage.previous();
  const std::uint32_t flags = flags_of(before, action.mb);
  if ((flags & gradient_in) != 0) {
    // Only without a plan: the stage before took itself for the last one.
    complain(LogRule::backward_order, line, state_of(action.stage).last,
             fmt::format("{} before stage {} went backward", to_string(action), before.value));
  } else if ((flags & forward_out) == 0 && !excuse(before, action.mb, forward_in | forward_out)) {
    suspect(before, action.mb, forward_out, LogRule::forward_order, line);
  }
}

void StepJudge::check_gradient(const LogLine& line, std::uint32_t flags) {
  const Action& action = line.record.action;
  StageFacts& facts = facts_.stages[action.stage.index()];
  const bool none_forward = facts.first_phase != Phase::forward;
  if ((flags & forward_out) == 0 && !excuse(action.stage, action.mb, forward_in | forward_out)) {
    if (none_forward) {
      complain(LogRule::first_seen_backward, line, state_of(action.stage).last,
               to_string(Action(action.stage, Phase::forward, action.mb), LogRecord::Event::enter));
      happen(action.stage, action.mb, forward_in, assumed * forward_in);
      happen(action.stage, action.mb, forward_out, assumed * forward_out);
    } else {
      suspect(action.stage, action.mb, forward_out, LogRule::backward_before_forward, line);
    }
  }
  if (!is_last(action.stage)) {
    const StageId behind = action.stage.next();
    if ((flags_of(behind, action.mb) & gradient_out) == 0 &&
        !excuse(behind, action.mb, gradient_in | gradient_out)) {
      suspect(behind, action.mb, gradient_out, LogRule::backward_order, line);
    }
  }
}

/// Each kind of action goes through the microbatches in order.
void StepJudge::check_turn(const LogLine& line) {
  const Action& action = line.record.action;
  const Kind kind = kind_of(action.phase);
  StageState& state = state_of(action.stage);
  std::int32_t& due = state.next[kind];
  if (track_ && !track_->ascending(action.stage, action.phase)) return;
  if (!track_ && kind == gradient && state.entered[gradient] == 0) {
    state.descending = action.mb.value > 0 && action.mb.value + 1 == state.next[forward];
    if (state.descending) due = action.mb.value;
  }
  if (state.descending && kind != forward) {
    if (kind == weight) return;
    if (action.mb.value < due) {
      suspect(action.stage, MicrobatchId(due), gradient_in, LogRule::mb_order, line);
    }
    due = std::min(due, action.mb.value) - 1;
    return;
  }
  if (due == action.mb.value && state.entered[kind] == due) {
    ++due;  // and nothing ahead of its turn
    return;
  }
  for (; due < action.mb.value; ++due) {
    const std::uint32_t flags = flags_of(action.stage, MicrobatchId(due));
    if ((flags & in_of(kind)) != 0) continue;
    const std::uint32_t both = in_of(kind) | out_of(kind);
    if (excuse(action.stage, MicrobatchId(due), both)) continue;
    suspect(action.stage, MicrobatchId(due), in_of(kind), LogRule::mb_order, line);
    due = action.mb.value;
    break;
  }
  while (due == action.mb.value || (flags_of(action.stage, MicrobatchId(due)) & in_of(kind)) != 0) {
    ++due;
  }
}

/// A rank does one thing at a time.
void StepJudge::check_lane(const LogLine& line) {
  const Action& action = line.record.action;
  Lane& lane = lane_of(action.stage);
  for (Key& open : lane) {
    if (open == 0) continue;
    const Key node = (open - 1) >> 2U;
    const std::uint32_t out = out_of((open - 1) & 3U);
    const StageId stage = detail::InFlight::stage_of(node);
    const MicrobatchId mb = detail::InFlight::mb_of(node);
    if ((flags_of(stage, mb) & out) == 0) {
      if (may_overlap(open, action)) continue;
      if (!excuse(stage, mb, out)) suspect(stage, mb, out, LogRule::rank_overlap, line);
    }
    open = 0;
  }
  Key& free = lane[0] == 0 ? lane[0] : lane[1];
  free = running(action.stage, action.mb, kind_of(action.phase));
}

StepJudge::Lane& StepJudge::lane_of(StageId stage) {
  const auto rank = track_ ? std::optional(track_->plan().rank_of[stage.index()])
                           : facts_.stages[stage.index()].rank;
  if (!rank) return stage_lanes_[stage.index()];
  if (rank->index() >= rank_lanes_.size()) rank_lanes_.resize(rank->index() + 1);
  return rank_lanes_[rank->index()];
}

bool StepJudge::may_overlap(Key open, const Action& action) const {
  const Key node = (open - 1) >> 2U;
  const auto kind = static_cast<Kind>((open - 1) & 3U);
  const Action other(detail::InFlight::stage_of(node),
                     kind == forward ? Phase::forward : Phase::backward,
                     detail::InFlight::mb_of(node));
  if (track_) return track_->overlaps(other, action);
  // A forward and a backward of two stages of one rank: some schedules do that on purpose.
  return other.stage != action.stage &&
         (other.phase == Phase::forward) != (action.phase == Phase::forward);
}

/// Credits, gate and the plan's order. After a loss none of them can be told.
void StepJudge::check_pace(const LogLine& line) {
  const Action& action = line.record.action;
  const Kind kind = kind_of(action.phase);
  StageState& state = state_of(action.stage);
  StageFacts& facts = facts_.stages[action.stage.index()];
  facts.peak_held = std::max(facts.peak_held, state.held);
  const bool first_backward = kind == gradient && !facts.went_backward;
  facts.went_backward |= kind == gradient;
  if (kind == forward && !facts.went_backward) ++facts.warm_up;
  if (!track_) return;
  const Plan& plan = track_->plan();
  const auto due = track_->start(action);
  if (lost_ > 0 || !clean_) return;
  if (!due && !first_backward && state.held <= plan.credits[action.stage.index()]) return;
  const std::string next = due && *due != action ? to_string(*due, LogRecord::Event::enter)
                                                 : std::string("no more actions");
  if (first_backward && is_last(action.stage) && facts.warm_up < plan.gate) {
    complain(LogRule::gate_early, line, state.last,
             to_string(Action(action.stage, Phase::forward, MicrobatchId(facts.warm_up)),
                       LogRecord::Event::enter),
             next);
  } else if (kind == forward && state.held > plan.credits[action.stage.index()]) {
    complain(
        LogRule::over_credit, line, state.last,
        fmt::format("at most {} held, so a backward first", plan.credits[action.stage.index()]),
        next);
  } else if (due) {
    complain(LogRule::plan_order, line, state.last, next, next);
  }
}

void StepJudge::exit(const LogLine& line, std::uint32_t flags) {
  const Action& action = line.record.action;
  const Kind kind = kind_of(action.phase);
  StageState& state = state_of(action.stage);
  if ((flags & out_of(kind)) != 0) {
    if ((flags & (assumed * out_of(kind))) != 0) return;
    complain(LogRule::mb_repeated, line, state.last, due_on(action.stage));
    return;
  }
  const bool other_half =
      kind == gradient && ((flags & split) != 0) != (action.phase == Phase::input_gradient);
  const bool entered = (flags & in_of(kind)) != 0;
  if (!entered || other_half) {
    if (entered || !excuse(action.stage, action.mb, in_of(kind))) {
      complain(LogRule::exit_without_enter, line, state.last,
               to_string(action, LogRecord::Event::enter));
    }
    const bool halves = action.phase == Phase::input_gradient || kind == weight;
    if (!entered) {
      happen(action.stage, action.mb, in_of(kind), (assumed * in_of(kind)) | (halves ? split : 0U));
    }
  }
  for (Key& open : lane_of(action.stage)) {
    if (open == running(action.stage, action.mb, kind)) open = 0;
  }
  happen(action.stage, action.mb, out_of(kind));
}

/// Notes an event of a microbatch on a stage, and everything that follows from it.
void StepJudge::happen(StageId stage, MicrobatchId mb, std::uint32_t event, std::uint32_t extra) {
  const Key key = detail::InFlight::key_of(stage, mb);
  StageState& state = state_of(stage);
  const unsigned kind = static_cast<unsigned>(std::bit_width(event) - 1) / 2;
  const bool enters = event == in_of(kind);
  ++(enters ? state.entered : state.exited)[kind];
  if (enters) ++entered_;
  if (event == forward_in) {
    ++state.held;
    extra |= held;
  }
  const std::uint32_t flags = in_flight_.add(key, event | extra);
  if ((flags & (awaited * event)) != 0) settle_late(key, event);
  if (!finished(flags)) return;
  if ((flags & held) != 0) --state.held;
  release(stage, mb);
}

/// Forgets what is finished, from the first microbatch on.
void StepJudge::release(StageId stage, MicrobatchId mb) {
  StageState& state = state_of(stage);
  if (mb.value != state.done_below) return;
  Key key = detail::InFlight::key_of(stage, mb);
  do {
    in_flight_.erase(key);
    ++state.done_below;
    key = detail::InFlight::key_of(stage, MicrobatchId(state.done_below));
  } while (finished(in_flight_.get(key)));
}

/// Whether the lost records can have been these events, those of them that are missing.
bool StepJudge::excuse(StageId stage, MicrobatchId mb, std::uint32_t events) {
  const std::uint32_t missing = events & ~flags_of(stage, mb);
  const int cost = std::popcount(missing);
  if (budget_ < cost) return false;
  budget_ -= cost;
  for (std::uint32_t event = 1; event <= weight_out; event <<= 1U) {
    if ((missing & event) != 0) happen(stage, mb, event, assumed * event);
  }
  return true;
}

void StepJudge::lost(std::int64_t count) {
  lost_ += count;
  budget_ += count;
}

void StepJudge::suspect(StageId stage, MicrobatchId mb, std::uint32_t event, LogRule if_late,
                        const LogLine& at) {
  clean_ = false;
  if (!at.whole) {
    doubtful_ = true;
    return;
  }
  const Key key = detail::InFlight::key_of(stage, mb);
  if (stage.index() >= stages_.size() || suspicions_.size() == most_suspicions) {
    complain(if_late, at, state_of(at.record.action.stage).last,
             name_of(stage, mb, event, false) + " first");
    return;
  }
  suspicions_.push_back({key, event, if_late, at, state_of(at.record.action.stage).last});
  in_flight_.add(key, awaited * event);
}

/// What some records were waiting for has come after them.
void StepJudge::settle_late(Key node, std::uint32_t event) {
  const auto waits = [node, event](const Suspicion& each) {
    return each.node == node && each.event == event;
  };
  const auto first = std::find_if(suspicions_.begin(), suspicions_.end(), waits);
  if (first == suspicions_.end()) return;
  const std::uint32_t flags = in_flight_.get(node);
  const bool halves = (flags & split) != 0;
  const bool clean = clean_;
  if ((flags & (assumed * event)) != 0) {
    // It never came; whoever assumed it has said why.
    const StageId stage = detail::InFlight::stage_of(node);
    const bool none_forward = facts_.stages[stage.index()].first_phase != Phase::forward;
    if (none_forward && complaints_->of(LogRule::first_seen_backward)) {
      complaints_->count(LogRule::first_seen_backward);
    }
    std::erase_if(suspicions_, waits);
    return;
  }
  complain(first->if_late, first->at, first->last,
           name_of(detail::InFlight::stage_of(node), detail::InFlight::mb_of(node), event, halves) +
               " first");
  clean_ = clean;  // it is not the record at hand that is wrong
  std::erase_if(suspicions_, waits);
}

/// What some records were waiting for never came: that is the cause, and they are its consequences.
void StepJudge::settle_never() {
  const auto cause = [](const Suspicion& each) {
    return std::make_pair(each.node, std::bit_width(each.event - 1) / 2);
  };
  std::sort(suspicions_.begin(), suspicions_.end(),
            [&cause](const Suspicion& a, const Suspicion& b) {
              return std::make_tuple(cause(a), a.at.record.seq, a.event) <
                     std::make_tuple(cause(b), b.at.record.seq, b.event);
            });
  for (std::size_t from = 0; from < suspicions_.size();) {
    std::size_t to = from;
    bool skipped = false;
    while (to < suspicions_.size() && cause(suspicions_[to]) == cause(suspicions_[from])) {
      skipped |= suspicions_[to++].if_late == LogRule::mb_order;
    }
    const Suspicion& first = suspicions_[from];
    const StageId stage = detail::InFlight::stage_of(first.node);
    const unsigned kind = static_cast<unsigned>(std::bit_width(first.event) - 1) / 2;
    const std::uint32_t flags = in_flight_.get(first.node);
    const bool entered = (flags & in_of(kind)) != 0;
    const StageFacts& facts = facts_.stages[stage.index()];
    const LogRule rule = entered              ? LogRule::never_exits
                         : facts.records == 0 ? LogRule::stage_silent
                         : skipped            ? LogRule::mb_skipped
                                              : first.if_late;
    complain(rule, first.at, first.last,
             name_of(stage, detail::InFlight::mb_of(first.node),
                     entered ? out_of(kind) : in_of(kind), (flags & split) != 0));
    for (std::size_t more = from + 1; more < to; ++more) complaints_->count(rule);
    from = to;
  }
  suspicions_.clear();
}

void StepJudge::complain(LogRule rule, const LogLine& at, const LastGood& last,
                         std::string expected, std::string due) {
  clean_ = false;
  if (!at.whole) {
    doubtful_ = true;  // a number that was cut short reads like another one
    return;
  }
  if (!complaints_->news(rule, at)) {
    complaints_->count(rule);
    return;
  }
  Complaint complaint;
  complaint.rule = rule;
  complaint.at = at;
  complaint.last = last;
  complaint.expected = std::move(expected);
  complaint.due = std::move(due);
  complaint.found = to_string(at.record.action, at.record.event);
  complaints_->add(std::move(complaint));
}

/// The next record that the stage should write.
std::string StepJudge::due_on(StageId stage) const {
  const StageState& state = stages_[stage.index()];
  if (state.last.there && state.last.event == LogRecord::Event::enter) {
    return to_string(state.last.action, LogRecord::Event::exit);
  }
  if (track_) {
    const auto due = track_->due_on(stage);
    return due ? to_string(*due, LogRecord::Event::enter) : "nothing more in this step";
  }
  return fmt::format("a microbatch that is new to stage {}", stage.value);
}

/// Whether `missing` records are more than have been lost.
bool StepJudge::enough(std::int64_t missing) const { return missing > lost_; }

std::optional<Unfinished> StepJudge::finish() {
  settle_never();
  std::int64_t missing = 0;
  in_flight_.each([&missing](Key, std::uint32_t flags) {
    const std::uint32_t all =
        (flags & split) != 0 ? everything : everything ^ weight_in ^ weight_out;
    if ((flags & everything) != 0) missing += std::popcount(all & ~flags);
  });
  facts_.whole = missing == 0;
  if (track_) {
    missing = std::max(missing, 2 * (track_->actions() - entered_));
  } else if (known_.microbatches && facts_.whole) {
    const std::int64_t never = *known_.microbatches - facts_.microbatches;
    missing = 4 * std::max<std::int64_t>(0, never) * static_cast<std::int64_t>(stages_.size());
  }
  if (!track_ && known_.stages && facts_.whole && lost_ == 0 && !stages_.empty() &&
      stages_.size() < static_cast<std::size_t>(*known_.stages)) {
    // The last one that there is went backward as if it were the last.
    LogLine at;
    at.record.seq = stages_.back().last.seq;
    at.record.action = stages_.back().last.action;
    const Action first(StageId(static_cast<std::int64_t>(stages_.size())), Phase::forward,
                       MicrobatchId(0));
    complain(LogRule::stage_silent, at, stages_.back().last,
             to_string(first, LogRecord::Event::enter));
  }
  // A stage without a record, although the one before has filled up what may wait for it.
  for (std::size_t s = 1; track_ && lost_ == 0 && s < stages_.size(); ++s) {
    const Plan& plan = track_->plan();
    const int full = std::min(plan.microbatches, plan.credits[s - 1]);
    if (facts_.stages[s].records > 0 || stages_[s - 1].exited[forward] < full) continue;
    if (complaints_->of(LogRule::stage_silent)) continue;
    const StageState& before = stages_[s - 1];
    LogLine at;
    at.record.seq = before.last.seq;
    at.record.action =
        Action(StageId(static_cast<std::int64_t>(s)), Phase::forward, MicrobatchId(0));
    complain(LogRule::stage_silent, at, before.last,
             to_string(at.record.action, LogRecord::Event::enter));
  }
  if (missing == 0 || !enough(missing)) return std::nullopt;
  return describe_unfinished();
}

Unfinished StepJudge::describe_unfinished() const {
  Unfinished result;
  std::vector<std::pair<Key, std::uint32_t>> unfinished;
  in_flight_.each([&unfinished](Key key, std::uint32_t flags) {
    if ((flags & everything) != 0 && !finished(flags)) unfinished.emplace_back(key, flags);
  });
  std::sort(unfinished.begin(), unfinished.end());
  result.held = static_cast<std::int64_t>(unfinished.size());
  for (const auto& [key, flags] : unfinished) {
    for (unsigned kind = 0; kind < 3; ++kind) {
      if ((flags & in_of(kind)) == 0 || (flags & out_of(kind)) != 0) continue;
      if (result.open.size() == 16) continue;
      const StageId stage = detail::InFlight::stage_of(key);
      result.open.push_back(fmt::format(
          "stage {}: {}", stage.value,
          name_of(stage, detail::InFlight::mb_of(key), out_of(kind), (flags & split) != 0)));
    }
  }
  std::int32_t most = 0;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const StageState& state = stages_[s];
    const std::int32_t forwards =
        s == 0 ? 0 : stages_[s - 1].exited[forward] - state.entered[forward];
    const bool last = s + 1 == stages_.size();
    const std::int32_t gradients =
        (last ? state.exited[forward] : stages_[s + 1].exited[gradient]) - state.entered[gradient];
    const StageId stage(static_cast<std::int64_t>(s));
    if (forwards > 0 || gradients > 0) {
      const bool ahead = forwards > 0;
      const Action action(stage, ahead ? Phase::forward : Phase::backward,
                          MicrobatchId(ahead ? state.next[forward] : state.next[gradient]));
      if (result.waiting.size() < 16) {
        result.waiting.push_back(fmt::format("stage {}: {}", stage.value, to_string(action)));
      }
    }
    if (forwards > most) {
      most = forwards;
      result.behind = stage;
    }
  }
  if (stages_.empty()) return result;
  const StageState& last = stages_.back();
  const int all = track_ ? track_->plan().microbatches : facts_.microbatches;
  result.gate_shut = result.open.empty() && last.exited[forward] == all &&
                     last.entered[gradient] < all &&
                     (stages_.size() == 1 ||
                      stages_[stages_.size() - 2].entered[gradient] == last.exited[gradient]);
  return result;
}

}  // namespace sluice
