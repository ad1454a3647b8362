#include <sluice/log_report.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

/// A likely cause: a key of the configuration, and the change that mends it.
struct Cause {
  std::string key;
  std::string change;
};

bool is_pace(LogRule rule) {
  return rule == LogRule::gate_early || rule == LogRule::over_credit || rule == LogRule::plan_order;
}

bool is_numbering(LogRule rule) {
  return rule == LogRule::seq_gap || rule == LogRule::lost_records || rule == LogRule::truncated;
}

std::string_view meaning_of(LogRule rule) {
  switch (rule) {
    case LogRule::seq_order: return "a seq out of turn";
    case LogRule::seq_gap:
    case LogRule::lost_records: return "records are missing";
    case LogRule::unknown_id: return "an id that does not exist here";
    case LogRule::stage_silent: return "a stage without records";
    case LogRule::first_seen_backward: return "a stage is first seen going backward";
    case LogRule::mb_skipped: return "a microbatch is skipped";
    case LogRule::mb_repeated: return "a microbatch comes again";
    case LogRule::exit_without_enter: return "an exit before its enter";
    case LogRule::never_exits: return "an action never exits, and others go on";
    case LogRule::forward_order: return "forward does not climb the stages";
    case LogRule::backward_order: return "backward does not fall through the stages";
    case LogRule::backward_before_forward: return "backward before its activation is there";
    case LogRule::rank_overlap: return "two actions at once on one rank";
    case LogRule::mb_order: return "microbatches out of order";
    case LogRule::gate_early: return "the last stage goes backward too early";
    case LogRule::over_credit: return "the stage holds more than its credit";
    case LogRule::plan_order: return "legal, but not the plan's order";
    case LogRule::truncated: return "the log stops";
  }
  return "";
}

Cause of_depth(const Evidence& evidence) {
  const Plan& plan = *evidence.plan;
  const int found = evidence.inference.drain_depth;
  if (found == plan.drain_depth) {
    return {"drain_depth", fmt::format("the run does not keep to drain_depth = {}", found)};
  }
  return {"drain_depth",
          fmt::format("the log runs at drain_depth = {}, the plan has {}: too {} there; set one to "
                      "the other",
                      found, plan.drain_depth, found > plan.drain_depth ? "large" : "small")};
}

/// What differs between the plan and what the log says of itself.
Cause of_difference(LogRule rule, const Evidence& evidence) {
  const Inference& seen = evidence.inference;
  const Plan& plan = *evidence.plan;
  if (evidence.facts.whole && seen.microbatches != plan.microbatches) {
    return {"microbatches",
            fmt::format("the log has {} microbatches, the plan {}; set microbatches = {}",
                        seen.microbatches, plan.microbatches, seen.microbatches)};
  }
  const bool named =
      std::any_of(seen.schedules.begin(), seen.schedules.end(),
                  [&plan](const Guess& guess) { return guess.schedule == plan.schedule; });
  const bool depth_differs = seen.drain_depth != plan.drain_depth;
  const bool law = plan.schedule == ScheduleName::drain || plan.schedule == ScheduleName::gpipe ||
                   plan.schedule == ScheduleName::one_f_one_b;
  const bool by_law =
      std::any_of(seen.schedules.begin(), seen.schedules.end(),
                  [](const Guess& guess) { return guess.schedule == ScheduleName::drain; });
  if (depth_differs && law && (by_law || seen.schedules.empty())) return of_depth(evidence);
  if (!named && !seen.schedules.empty()) {
    return {"schedule",
            fmt::format("the log's order is that of schedule = {}, the plan has {}",
                        to_string(seen.schedules.front().schedule), to_string(plan.schedule))};
  }
  if (rule == LogRule::plan_order) {
    return {"order",
            "no schedule has the log's order: set order = adaptive if it was chosen at run "
            "time, or the costs it was planned with"};
  }
  return of_depth(evidence);
}

Cause cause_of(const Complaint& complaint, const Evidence& evidence) {
  if (!complaint.likely.empty()) return {complaint.likely, complaint.change};
  const int stages = evidence.known.stages.value_or(evidence.inference.stages);
  switch (complaint.rule) {
    case LogRule::unknown_id: {
      const LogRecord& record = complaint.at.record;
      const auto beyond = [](std::int32_t id, const std::optional<std::int32_t>& known) {
        return known && id >= *known;
      };
      if (beyond(record.action.stage.value, evidence.known.stages)) {
        return {"stages", fmt::format("set stages to what the run had: {} or more, not {}",
                                      record.action.stage.value + 1, stages)};
      }
      if (beyond(record.action.mb.value, evidence.known.microbatches)) {
        return {"microbatches",
                fmt::format("set microbatches to what the run had: {} or more, not {}",
                            record.action.mb.value + 1, *evidence.known.microbatches)};
      }
      return {"devices", "see which rank runs which stage"};
    }
    case LogRule::stage_silent: {
      const std::int32_t silent =
          parse_action(complaint.expected.substr(0, complaint.expected.find(' ')))
              .value_or(complaint.at.record.action)
              .stage.value;
      const bool backward_without = complaint.at.record.action.phase != Phase::forward;
      if (evidence.known.stages && backward_without &&
          complaint.at.record.action.stage.value < silent) {
        return {"stages", fmt::format("stage {} took itself for the last of {}; set stages = {}",
                                      complaint.at.record.action.stage.value, silent, silent)};
      }
      return {"devices",
              fmt::format("stage {} of {} has no worker: see that ranks x replicas = devices",
                          silent, stages)};
    }
    case LogRule::first_seen_backward:
      return {"devices",
              fmt::format("its forwards ran elsewhere: see that each of the {} stages has "
                          "one device",
                          stages)};
    case LogRule::mb_skipped: {
      const std::int32_t microbatches =
          evidence.known.microbatches.value_or(evidence.inference.microbatches);
      return {"microbatches",
              fmt::format("see who numbers the {} microbatches: one was never handed out",
                          microbatches)};
    }
    case LogRule::mb_repeated:
      return {"microbatches", "see who numbers the microbatches: one was handed out twice"};
    case LogRule::forward_order:
    case LogRule::backward_order:
      return {"stages",
              "see in which direction the stages are walked: F climbs from 0, B falls to 0"};
    case LogRule::backward_before_forward:
      return {"drain_depth",
              "drain_depth is too small for what the loop does; raise it, or wait for "
              "the activation"};
    case LogRule::rank_overlap: return {"devices", "give each rank one thing at a time"};
    case LogRule::mb_order: return {"schedule", "both phases take microbatches in ascending order"};
    case LogRule::gate_early:
    case LogRule::over_credit:
    case LogRule::plan_order: return of_difference(complaint.rule, evidence);
    default: return {"", ""};
  }
}

LogFinding finding_of(const Complaint& complaint, std::int64_t count, const Evidence& evidence) {
  const LogRecord& record = complaint.at.record;
  LogFinding finding;
  finding.rule = to_string(complaint.rule);
  finding.expected = complaint.expected;
  finding.found = complaint.found;
  finding.count = count;
  finding.last_good = to_string(complaint.last);
  if (complaint.at.line > 0) {
    const auto source = static_cast<std::size_t>(complaint.at.source);
    finding.log = source < evidence.logs.size() ? evidence.logs[source] : "";
    finding.line = complaint.at.line;
  }
  const Cause cause = cause_of(complaint, evidence);
  finding.likely = cause.key;
  finding.key = cause.key;
  std::string& text = finding.message;
  const auto out = std::back_inserter(text);
  if (finding.line > 0) fmt::format_to(out, "{}:{}: ", finding.log, finding.line);
  if (complaint.has_record) {
    finding.seq = record.seq;
    finding.stage = record.action.stage;
    finding.mb = record.action.mb;
    finding.phase = record.action.phase;
    fmt::format_to(out, "seq {}: ", record.seq);
    if (record.step) fmt::format_to(out, "step {}: ", *record.step);
  }
  fmt::format_to(out, "{}: {}: expected {}, found {}", finding.rule, meaning_of(complaint.rule),
                 finding.expected, finding.found);
  if (complaint.has_record) {
    fmt::format_to(out, "; last good record of stage {}: {}", record.action.stage.value,
                   finding.last_good);
  }
  if (!cause.key.empty()) {
    fmt::format_to(out, "; likely {}: {}", cause.key, cause.change);
  } else if (!complaint.change.empty()) {
    fmt::format_to(out, "; {}", complaint.change);
  }
  if (count > 1 && complaint.rule == LogRule::truncated) {
    fmt::format_to(out, " (and {} more that end early)", count - 1);
  } else if (count > 1) {
    fmt::format_to(out, " ({} records follow from the same cause)", count - 1);
  }
  return finding;
}

/// All complaints, and which of them is the cause of another.
class Causes {
 public:
  Causes(std::vector<Complaint> all, const Evidence& evidence)
      : all_(std::move(all)), evidence_(&evidence) {}

  std::vector<Complaint> found() {
    fold_pace_into_what_is_missing();
    fold_same_record();
    fold_other_schedule();
    fold_pace();
    fold_numbers();
    fold_end();
    return std::move(all_);
  }

 private:
  Complaint* of(LogRule rule) {
    const auto found = std::find_if(all_.begin(), all_.end(),
                                    [rule](const Complaint& each) { return each.rule == rule; });
    return found == all_.end() ? nullptr : &*found;
  }

  void fold(LogRule consequence, LogRule into) {
    const Complaint* from = of(consequence);
    Complaint* to = of(into);
    if (from == nullptr || to == nullptr) return;
    to->count += from->count;
    std::erase_if(all_, [consequence](const Complaint& each) { return each.rule == consequence; });
  }

  /// A rank that leaves out an action departs from its order where that action was due.
  void fold_pace_into_what_is_missing() {
    for (const LogRule pace : {LogRule::gate_early, LogRule::over_credit, LogRule::plan_order}) {
      Complaint* skipped = of(LogRule::mb_skipped);
      const Complaint* departure = of(pace);
      if (skipped == nullptr || departure == nullptr || departure->due != skipped->expected)
        continue;
      if (departure->at.record.seq < skipped->at.record.seq) {
        skipped->at = departure->at;
        skipped->last = departure->last;
        skipped->found = departure->found;
      }
      fold(pace, LogRule::mb_skipped);
    }
  }

  /// One record can break several rules: the first of them says it.
  void fold_same_record() {
    for (std::size_t i = 0; i + 1 < all_.size();) {
      const bool same = all_[i].has_record && all_[i + 1].has_record &&
                        all_[i].at.record.seq == all_[i + 1].at.record.seq &&
                        all_[i + 1].rule != LogRule::truncated;
      if (same) {
        fold(all_[i + 1].rule, all_[i].rule);
      } else {
        ++i;
      }
    }
  }

  /// A log in the order of another schedule differs from the plan's in more than one way.
  void fold_other_schedule() {
    const Plan* plan = evidence_->plan;
    const auto& seen = evidence_->inference.schedules;
    const auto planned = [plan](const Guess& guess) { return guess.schedule == plan->schedule; };
    if (plan == nullptr || seen.empty() || std::any_of(seen.begin(), seen.end(), planned)) return;
    const auto of_order = [](const Complaint& each) {
      return is_pace(each.rule) || each.rule == LogRule::mb_order;
    };
    const auto first = std::find_if(all_.begin(), all_.end(), of_order);
    if (first == all_.end()) return;
    const LogRule root = first->rule;
    for (const LogRule rule :
         {LogRule::mb_order, LogRule::gate_early, LogRule::over_credit, LogRule::plan_order}) {
      if (rule != root) fold(rule, root);
    }
  }

  /// Once a pipeline has another shape, or has left its order, its pace differs all the way.
  void fold_pace() {
    for (const LogRule shape : {LogRule::unknown_id, LogRule::stage_silent}) {
      for (const LogRule pace : {LogRule::gate_early, LogRule::over_credit, LogRule::plan_order}) {
        fold(pace, shape);
      }
    }
    std::optional<LogRule> root;
    for (const Complaint& each : std::vector<Complaint>(all_)) {
      const bool placed = each.rule == LogRule::rank_overlap && !each.at.record.rank;
      if (is_numbering(each.rule) || each.rule == LogRule::seq_order) continue;
      if (!root) {
        root = each.rule;
      } else if (is_pace(each.rule) || (placed && is_pace(*root))) {
        fold(each.rule, *root);
      }
    }
  }

  void fold_numbers() {
    // A number in the place of another one: it is there twice, and the other never.
    const Complaint* twice = of(LogRule::seq_order);
    const Complaint* gap = of(LogRule::seq_gap);
    if (twice != nullptr && gap != nullptr && gap->count <= twice->count) {
      fold(LogRule::seq_gap, LogRule::seq_order);
    }
    const Complaint* repeated = of(LogRule::mb_repeated);
    const Complaint* skipped = of(LogRule::mb_skipped);
    if (repeated != nullptr && skipped != nullptr &&
        repeated->at.record.seq <= skipped->at.record.seq) {
      fold(LogRule::mb_skipped, LogRule::mb_repeated);
    }
  }

  /// A step with something wrong inside is not finished either.
  void fold_end() {
    const bool wrong = std::any_of(all_.begin(), all_.end(), [this](const Complaint& each) {
      return !is_numbering(each.rule) && (!is_pace(each.rule) || evidence_->facts.whole);
    });
    if (wrong) {
      std::erase_if(all_, [](const Complaint& each) { return each.rule == LogRule::truncated; });
    }
  }

  std::vector<Complaint> all_;  // by seq, then rule; one a rule
  const Evidence* evidence_;
};

}  // namespace

std::string_view to_string(Verdict verdict) {
  constexpr std::array<std::string_view, 5> names{"pass", "violation", "incomplete", "truncated",
                                                  "rejected"};
  return names[static_cast<std::size_t>(verdict)];
}

void explain(const Complaints& complaints, const Evidence& evidence, LogReport& report) {
  for (const Complaint& cause : Causes(complaints.sorted(), evidence).found()) {
    report.findings.push_back(finding_of(cause, cause.count, evidence));
    Verdict verdict = Verdict::violation;
    if (cause.rule == LogRule::truncated) verdict = Verdict::truncated;
    if (cause.rule == LogRule::seq_gap || cause.rule == LogRule::lost_records) {
      verdict = Verdict::incomplete;
    }
    // What is broken says more than what is missing, and that more than where it stops.
    if (report.verdict == Verdict::pass || verdict < report.verdict) report.verdict = verdict;
  }
}

}  // namespace sluice
