// What LogCheck says of what is missing: the rest of a step, and records that are lost.

#include <sluice/log_check.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace sluice {

/// Says why a step is not over where its log is; `how` is the writer's own word, if there is one.
void LogCheck::complain_of_end(const StepJudge& judge, const std::optional<Unfinished>& unfinished,
                               const std::string& how) {
  if (!unfinished && how.empty()) return;
  const int all = known_.microbatches.value_or(0);
  Complaint complaint;
  complaint.rule = LogRule::truncated;
  complaint.at = last_;
  complaint.expected = "the rest of the step";
  complaint.found = unfinished ? to_string(*unfinished) : "the end";
  complaint.last = judge.last_good(last_.record.action.stage);
  if (!how.empty()) {
    // Nobody has to be looked for: the writer says who it was.
    complaint.expected = "a step that ends well";
    complaint.found = how;
  } else if (judge.facts().whole && judge.facts().microbatches < all) {
    complaint.likely = "microbatches";
    complaint.change =
        fmt::format("the log ends after {} of {} microbatches, none of them under way",
                    judge.facts().microbatches, all);
  } else if (unfinished->gate_shut) {
    complaint.likely = "drain_depth";
    complaint.change =
        "everything has gone forward and the last stage does not start the backwards it could: "
        "its gate is tested on every turn instead of staying open, or waits for more than come";
  } else if (plan_ && plan_->slots && unfinished->open.empty()) {
    complaint.likely = "slots";
    complaint.change =
        "nothing runs although inputs are there: ranks wait for each other, or the "
        "log stops between two actions";
  } else {
    complaint.change = "an unfinished microbatch is not lost: look at the stage that is behind";
  }
  complaints_.add(std::move(complaint));
}

void LogCheck::complain_of_gap() {
  if (gaps_ == 0) return;
  Complaint complaint;
  const bool head = first_lost_ == 1;
  const auto silent = std::find_if(facts_.stages.begin(), facts_.stages.end(),
                                   [](const StageFacts& stage) { return stage.records == 0; });
  complaint.rule = head || silent != facts_.stages.end() ? LogRule::lost_records : LogRule::seq_gap;
  complaint.has_record = false;
  complaint.at.record.seq = first_lost_;
  complaint.count = gaps_;
  complaint.expected = first_lost_ == first_lost_end_
                           ? fmt::format("seq {}", first_lost_)
                           : fmt::format("seq {} to {}", first_lost_, first_lost_end_);
  complaint.found = fmt::format("seq {}; {} records missing in all", first_lost_end_ + 1, lost_);
  complaint.change = "what is missing cannot be judged: find the records";
  if (silent != facts_.stages.end()) {
    complaint.change = fmt::format("stage {} has no record at all: give its log too",
                                   silent - facts_.stages.begin());
  } else if (head) {
    complaint.change = "the beginning of the log is gone";
  }
  complaints_.add(std::move(complaint));
}

}  // namespace sluice
