#include <sluice/step_judge.hpp>

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

using namespace detail;

// Without a known shape: a stage or rank number beyond is a mistake, not a stage or a rank.
constexpr std::int32_t most_stages = 1 << 16;

}  // namespace

StepJudge::StepJudge(std::optional<PlanTrack> track, const KnownShape& known,
                     Complaints& complaints)
    : track_(std::move(track)), known_(known), complaints_(&complaints) {
  if (!track_) return;
  const std::vector<RankId>& rank_of = track_->plan().rank_of;
  add_stages(rank_of.size());
  for (StageId stage; stage.index() < rank_of.size(); stage = stage.next()) {
    lanes_.place(stage, rank_of[stage.index()]);
  }
}

void StepJudge::add_stages(std::size_t stages) {
  progress_.resize(stages);
  turns_.resize(stages);
  lanes_.resize(stages);
  facts_.stages.resize(stages);
}

bool StepJudge::record(const LogLine& line) {
  clean_ = true;
  if (!exists(line)) return true;
  const Action& action = line.record.action;
  const std::uint32_t flags = progress_.flags(action.stage, action.mb);
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
    // Field by field: a temporary would be read back before it has reached the cache.
    LastGood& last = turn_of(action.stage).last;
    last.seq = line.record.seq;
    last.action = action;
    last.event = line.record.event;
    last.there = true;
  }
  return true;
}

/// Ids within the shape, and a stage that stays on its rank.
inline bool StepJudge::exists(const LogLine& line) {
  const Action& action = line.record.action;
  const std::int32_t stages = known_.stages.value_or(most_stages);
  if (action.stage.value >= stages) {
    complain(LogRule::unknown_id, line, {}, fmt::format("stage 0 to {}", stages - 1));
    return false;
  }
  if (action.stage.index() >= turns_.size()) add_stages(action.stage.index() + 1);
  if (known_.microbatches && action.mb.value >= *known_.microbatches) {
    complain(LogRule::unknown_id, line, turn_of(action.stage).last,
             fmt::format("mb 0 to {}", *known_.microbatches - 1));
    return false;
  }
  if (!line.record.rank || keeps_its_rank(line)) return true;
  const auto& rank = facts_.stages[action.stage.index()].rank;
  const int stage = action.stage.value;
  complain(LogRule::unknown_id, line, turn_of(action.stage).last,
           track_ ? fmt::format("rank {} for stage {}",
                                track_->plan().rank_of[action.stage.index()].value, stage)
           : rank ? fmt::format("rank {} for stage {}, as before", rank->value, stage)
                  : fmt::format("rank 0 to {}", most_stages - 1));
  return true;
}

/// The first rank that a stage names is its own; with a plan the plan's.
bool StepJudge::keeps_its_rank(const LogLine& line) {
  const RankId named = *line.record.rank;
  auto& rank = facts_.stages[line.record.action.stage.index()].rank;
  if (rank) return *rank == named;
  const bool right = track_ ? track_->plan().rank_of[line.record.action.stage.index()] == named
                            : named.value < most_stages;
  if (!right) return false;
  rank = named;
  lanes_.place(line.record.action.stage, named);
  if (rank->index() >= facts_.ranks.size()) facts_.ranks.resize(rank->index() + 1);
  return true;
}

inline bool StepJudge::restarts(const LogLine& line, std::uint32_t flags) const {
  const Action& action = line.record.action;
  return action.mb.value == 0 && action.stage.value == 0 && action.phase == Phase::forward &&
         line.record.event == LogRecord::Event::enter && !line.record.step &&
         (flags & forward_in) != 0 && idle();
}

inline void StepJudge::enter(const LogLine& line, std::uint32_t flags) {
  const Action& action = line.record.action;
  const Kind kind = kind_of(action.phase);
  const bool whole_again = kind == weight && (flags & gradient_in) != 0 && (flags & split) == 0;
  if ((flags & in_of(kind)) != 0 || whole_again) {
    if ((flags & (assumed * in_of(kind))) != 0) return;  // late, but it was known to be missing
    complain(LogRule::mb_repeated, line, turn_of(action.stage).last, due_on(action.stage));
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

inline void StepJudge::check_forward(const LogLine& line) {
  const Action& action = line.record.action;
  if (action.stage.value == 0) return;
  const StageId before = action.stage.previous();
  const std::uint32_t flags = progress_.flags(before, action.mb);
  if ((flags & gradient_in) != 0) {
    // Only without a plan: the stage before took itself for the last one.
    complain(LogRule::backward_order, line, turn_of(action.stage).last,
             fmt::format("{} before stage {} went backward", to_string(action), before.value));
  } else if ((flags & forward_out) == 0 && !excuse(before, action.mb, forward_in | forward_out)) {
    suspect(before, action.mb, forward_out, LogRule::forward_order, line);
  }
}

inline void StepJudge::check_gradient(const LogLine& line, std::uint32_t flags) {
  const Action& action = line.record.action;
  if ((flags & forward_out) == 0 && !excuse(action.stage, action.mb, forward_in | forward_out)) {
    if (facts_.stages[action.stage.index()].first_phase == Phase::forward) {
      suspect(action.stage, action.mb, forward_out, LogRule::backward_before_forward, line);
    } else {
      complain(LogRule::first_seen_backward, line, turn_of(action.stage).last,
               to_string(Action(action.stage, Phase::forward, action.mb), LogRecord::Event::enter));
      happen(action.stage, action.mb, forward_in, assumed * forward_in);
      happen(action.stage, action.mb, forward_out, assumed * forward_out);
    }
  }
  if (is_last(action.stage)) return;
  const StageId behind = action.stage.next();
  if ((progress_.flags(behind, action.mb) & gradient_out) == 0 &&
      !excuse(behind, action.mb, gradient_in | gradient_out)) {
    suspect(behind, action.mb, gradient_out, LogRule::backward_order, line);
  }
}

/// Each kind of action goes through the microbatches in order.
inline void StepJudge::check_turn(const LogLine& line) {
  const Action& action = line.record.action;
  const Kind kind = kind_of(action.phase);
  Turn& turn = turn_of(action.stage);
  std::int32_t& due = turn.due[kind];
  if (track_ && !track_->ascending(action.stage, action.phase)) return;
  const std::int32_t entered = progress_.stage(action.stage).entered[kind];
  if (!track_ && kind == gradient && entered == 0) {
    turn.descending = action.mb.value > 0 && action.mb.value + 1 == turn.due[forward];
    if (turn.descending) due = action.mb.value;
  }
  if (turn.descending && kind != forward) {
    if (kind == weight) return;
    if (action.mb.value < due) {
      suspect(action.stage, MicrobatchId(due), gradient_in, LogRule::mb_order, line);
    }
    due = std::min(due, action.mb.value) - 1;
    return;
  }
  if (due == action.mb.value && entered == due) {
    ++due;  // and nothing ahead of its turn
    return;
  }
  const auto flags_of = [&](std::int32_t mb) {
    return progress_.flags(action.stage, MicrobatchId(mb));
  };
  for (; due < action.mb.value; ++due) {
    if ((flags_of(due) & in_of(kind)) != 0) continue;
    if (excuse(action.stage, MicrobatchId(due), in_of(kind) | out_of(kind))) continue;
    suspect(action.stage, MicrobatchId(due), in_of(kind), LogRule::mb_order, line);
    due = action.mb.value;
    break;
  }
  while (due == action.mb.value || (flags_of(due) & in_of(kind)) != 0) ++due;
}

/// A rank does one thing at a time.
inline void StepJudge::check_lane(const LogLine& line) {
  const Action& action = line.record.action;
  auto& lane = lanes_.of(action.stage);
  for (RankLanes::Running& running : lane) {
    if (!running.there) continue;
    const std::uint32_t out = out_of(running.kind);
    if ((progress_.flags(running.stage, running.mb) & out) == 0) {
      if (may_overlap(running, action)) continue;
      if (!excuse(running.stage, running.mb, out)) {
        suspect(running.stage, running.mb, out, LogRule::rank_overlap, line);
      }
    }
    running.there = false;
  }
  RankLanes::start(lane, action);
}

bool StepJudge::may_overlap(const RankLanes::Running& running, const Action& action) const {
  const Phase phase = running.kind == forward ? Phase::forward : Phase::backward;
  if (track_) return track_->overlaps(Action(running.stage, phase, running.mb), action);
  // A forward and a backward of two stages of one rank: some schedules do that on purpose.
  return running.stage != action.stage &&
         (running.kind == forward) != (action.phase == Phase::forward);
}

/// Credits, gate and the plan's order. After a loss none of them can be told.
inline void StepJudge::check_pace(const LogLine& line) {
  const Action& action = line.record.action;
  const Kind kind = kind_of(action.phase);
  const std::int32_t held_here = progress_.stage(action.stage).held;
  StageFacts& facts = facts_.stages[action.stage.index()];
  facts.peak_held = std::max(facts.peak_held, held_here);
  const bool first_backward = kind == gradient && !facts.went_backward;
  facts.went_backward |= kind == gradient;
  if (kind == forward && !facts.went_backward) ++facts.warm_up;
  if (!track_) return;
  const Plan& plan = track_->plan();
  const int credit = plan.credits[action.stage.index()];
  const bool in_turn = track_->start_in_turn(action);
  if (in_turn && !first_backward && held_here <= credit) return;
  const auto due = in_turn ? std::nullopt : track_->start_out_of_turn(action);
  if (lost_ > 0 || !clean_) return;
  if (!due && !first_backward && held_here <= credit) return;
  const LastGood& last = turn_of(action.stage).last;
  const std::string next = due && *due != action ? to_string(*due, LogRecord::Event::enter)
                                                 : std::string("no more actions");
  if (first_backward && is_last(action.stage) && facts.warm_up < plan.gate) {
    complain(LogRule::gate_early, line, last,
             to_string(Action(action.stage, Phase::forward, MicrobatchId(facts.warm_up)),
                       LogRecord::Event::enter),
             next);
  } else if (kind == forward && held_here > credit) {
    complain(LogRule::over_credit, line, last,
             fmt::format("at most {} held, so a backward first", credit), next);
  } else if (due) {
    complain(LogRule::plan_order, line, last, next, next);
  }
}

inline void StepJudge::exit(const LogLine& line, std::uint32_t flags) {
  const Action& action = line.record.action;
  const Kind kind = kind_of(action.phase);
  if ((flags & out_of(kind)) != 0) {
    if ((flags & (assumed * out_of(kind))) != 0) return;
    complain(LogRule::mb_repeated, line, turn_of(action.stage).last, due_on(action.stage));
    return;
  }
  const bool other_half =
      kind == gradient && ((flags & split) != 0) != (action.phase == Phase::input_gradient);
  const bool entered = (flags & in_of(kind)) != 0;
  if (!entered || other_half) {
    if (entered || !excuse(action.stage, action.mb, in_of(kind))) {
      complain(LogRule::exit_without_enter, line, turn_of(action.stage).last,
               to_string(action, LogRecord::Event::enter));
    }
    const bool halves = action.phase == Phase::input_gradient || kind == weight;
    if (!entered) {
      happen(action.stage, action.mb, in_of(kind), (assumed * in_of(kind)) | (halves ? split : 0U));
    }
  }
  RankLanes::end(lanes_.of(action.stage), action);
  happen(action.stage, action.mb, out_of(kind));
}

/// Notes an event of a microbatch on a stage, and settles what was waiting for it.
inline void StepJudge::happen(StageId stage, MicrobatchId mb, std::uint32_t event,
                              std::uint32_t extra) {
  if (enters(event)) ++entered_;
  const std::uint32_t flags = progress_.happen(stage, mb, event, extra);
  if ((flags & (awaited * event)) != 0) settle_late(stage, mb, event, flags);
}

/// Whether the lost records can have been these events, those of them that are missing.
bool StepJudge::excuse(StageId stage, MicrobatchId mb, std::uint32_t events) {
  const std::uint32_t missing = events & ~progress_.flags(stage, mb);
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
  const LastGood& last = turn_of(at.record.action.stage).last;
  if (stage.index() >= turns_.size() || suspicions_.full()) {
    complain(if_late, at, last, name_of(stage, mb, event, false) + " first");
    return;
  }
  suspicions_.add({stage, mb, event, if_late, at, last});
  progress_.await(stage, mb, event);
}

/// What some records were waiting for has come after them.
void StepJudge::settle_late(StageId stage, MicrobatchId mb, std::uint32_t event,
                            std::uint32_t flags) {
  const auto first = suspicions_.settle(stage, mb, event);
  if (!first) return;
  if ((flags & (assumed * event)) != 0) {
    // It never came; whoever assumed it has said why.
    if (facts_.stages[stage.index()].first_phase != Phase::forward &&
        complaints_->of(LogRule::first_seen_backward)) {
      complaints_->count(LogRule::first_seen_backward);
    }
    return;
  }
  const bool clean = clean_;
  complain(first->if_late, first->at, first->last,
           name_of(stage, mb, event, (flags & split) != 0) + " first");
  clean_ = clean;  // it is not the record at hand that is wrong
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
  const LastGood& last = turns_[stage.index()].last;
  if (last.there && last.event == LogRecord::Event::enter) {
    return to_string(last.action, LogRecord::Event::exit);
  }
  if (track_) {
    const auto due = track_->due_on(stage);
    return due ? to_string(*due, LogRecord::Event::enter) : "nothing more in this step";
  }
  return fmt::format("a microbatch that is new to stage {}", stage.value);
}

}  // namespace sluice
