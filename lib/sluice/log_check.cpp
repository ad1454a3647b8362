#include <sluice/log_check.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

// So many steps may be under way at once before the oldest is taken for over.
constexpr std::size_t most_open_steps = 16;

}  // namespace

LogCheck::LogCheck(std::optional<Plan> plan, std::size_t window)
    : plan_(plan ? std::make_unique<const Plan>(*std::move(plan)) : nullptr), sequence_(window) {
  if (!plan_) return;
  track_.emplace(*plan_);
  known_ = {plan_->stages, plan_->microbatches};
}

int LogCheck::add(std::string name) {
  const int number = static_cast<int>(sources_.size());
  sources_.push_back({std::move(name), LogReader(number), false, 0, {}});
  return number;
}

int LogCheck::add(std::string name, LogReader::ForeignLine foreign) {
  const int number = static_cast<int>(sources_.size());
  sources_.push_back({std::move(name), LogReader(number, std::move(foreign)), false, 0, {}});
  return number;
}

void LogCheck::feed(int log, std::string_view bytes) {
  Source& source = sources_[static_cast<std::size_t>(log)];
  // In pieces, whose records stay in the cache until they are judged.
  constexpr std::size_t piece = std::size_t{16} << 10;
  while (!bytes.empty() && source.usable()) {
    source.reader.feed(bytes.substr(0, piece), batch_);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    take(source);
  }
}

void LogCheck::end(int log) {
  Source& source = sources_[static_cast<std::size_t>(log)];
  if (!source.usable()) return;
  source.over = true;
  source.reader.finish(batch_);
  take(source);
  cut_short_ |= source.reader.cut_short();
}

void LogCheck::take(Source& source) {
  for (const LogLine& line : batch_) {
    if (numbering_ == Numbering::shared && line.numbered && !source.problem) {
      source.reached = std::max(source.reached, line.record.seq);
      sequence_.put(line, *this);
    } else {
      put(line);
    }
  }
  batch_.clear();
  if (!source.problem) source.problem = source.reader.problem();
  if (numbering_ == Numbering::unknown) decide_numbering(false);
}

void LogCheck::put(const LogLine& line) {
  Source& source = sources_[static_cast<std::size_t>(line.source)];
  if (source.problem && source.problem->line <= line.line) return;
  source.reached = std::max(source.reached, line.numbered ? line.record.seq : line.line);
  if (numbering_ == Numbering::shared && line.numbered) {
    sequence_.put(line, *this);
  } else if (numbering_ == Numbering::unknown ||
             numbering_ == (line.numbered ? Numbering::own : Numbering::none)) {
    kept_.push_back(line);
  } else {
    source.problem = LogProblem{
        line.line, 1,
        line.numbered ? "no seq, as in the records before" : "a seq, as in the records before",
        line.numbered ? "one" : "none"};
  }
}

/// Once every log has shown a record, or has none.
void LogCheck::decide_numbering(bool last_chance) {
  const auto shown = [](const Source& source) { return source.reached > 0 || !source.usable(); };
  if (!last_chance && !std::all_of(sources_.begin(), sources_.end(), shown)) return;
  std::map<int, std::int64_t> lowest;  // by log
  bool numbered = true;                // the first record of each decides; another kind is refused
  for (const LogLine& line : kept_) {
    const auto [entry, first] = lowest.try_emplace(line.source, line.record.seq);
    if (first) numbered = numbered && line.numbered;
    if (line.numbered) entry->second = std::min(entry->second, line.record.seq);
  }
  std::vector<std::int64_t> starts;
  starts.reserve(lowest.size());
  for (const auto& [source, seq] : lowest) starts.push_back(seq);
  std::sort(starts.begin(), starts.end());
  const bool twice = std::adjacent_find(starts.begin(), starts.end()) != starts.end();
  numbering_ = !numbered ? Numbering::none : twice ? Numbering::own : Numbering::shared;
  std::vector<LogLine> lines;
  lines.swap(kept_);
  for (const LogLine& line : lines) put(line);
}

/// Each log's records by its own numbers.
std::vector<LogLane> LogCheck::lanes_by_number() {
  std::vector<LogLane> lanes(sources_.size());
  for (const LogLine& line : kept_) lanes[static_cast<std::size_t>(line.source)].push_back(line);
  for (LogLane& lane : lanes) {
    std::sort(lane.begin(), lane.end(), [](const LogLine& a, const LogLine& b) {
      return std::tie(a.record.seq, a.line) < std::tie(b.record.seq, b.line);
    });
    std::int64_t due = 1;
    for (const LogLine& line : lane) {
      const std::int64_t seq = line.record.seq;
      if (seq > due) lost(due, seq - 1);
      if (seq < due) again(line);
      due = std::max(due, seq + 1);
    }
    const auto same = [](const LogLine& a, const LogLine& b) {
      return a.record.seq == b.record.seq;
    };
    lane.erase(std::unique(lane.begin(), lane.end(), same), lane.end());
  }
  return lanes;
}

/// Finds the order of the records that have no common number, and judges them.
void LogCheck::judge_kept() {
  const bool timed = std::any_of(kept_.begin(), kept_.end(),
                                 [](const LogLine& line) { return line.record.t_ns.has_value(); });
  if (numbering_ == Numbering::none && sources_.size() == 1 && !timed) {
    // One log without numbers and clocks is in the order in which it was written.
    std::int64_t seq = 0;
    for (LogLine& line : kept_) {
      line.record.seq = ++seq;
      record(line);
    }
    return;
  }
  const auto lanes = numbering_ == Numbering::own ? lanes_by_number() : lanes_of(kept_);
  for (const LogLine& line : order_by_cause(lanes)) record(line);
}

std::optional<int> LogCheck::hungry() const {
  std::optional<int> best;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (!sources_[i].usable()) continue;
    if (best && sources_[static_cast<std::size_t>(*best)].reached <= sources_[i].reached) continue;
    best = static_cast<int>(i);
  }
  return best;
}

void LogCheck::record(const LogLine& line) {
  ++records_;
  StepJudge& judge = judge_of(line);
  if (pictured_) {
    // The first step in which something is wrong stays.
    if (pictured_step_ != current_step_ && complaints_.empty()) {
      pictured_->clear();
      pictured_step_ = current_step_;
    }
    if (pictured_step_ == current_step_) pictured_->add(line);
  }
  const bool taken = judge.record(line);
  last_ = line;
  if (taken) return;
  // The microbatches start again, and no record says that this is another step.
  Complaint complaint;
  complaint.rule = LogRule::mb_repeated;
  complaint.at = line;
  complaint.expected = "step= in every record of a log that spans steps";
  complaint.found = to_string(line.record.action, line.record.event) + " again, after a whole step";
  complaint.likely = "step";
  complaint.change = "write the step into the records";
  complaints_.add(std::move(complaint));
  close(implied_step_++);
  judge_of(line).record(line);
}

void LogCheck::lost(std::int64_t first, std::int64_t last) {
  if (gaps_++ == 0) {
    first_lost_ = first;
    first_lost_end_ = last;
  }
  lost_ += last - first + 1;
  if (open_.empty()) open(implied_step_);
  for (auto& [step, judge] : open_) judge.lost(last - first + 1);
}

bool LogCheck::again(const LogLine& line) {
  if (!line.whole) {
    cut_short_ = true;
    return false;
  }
  const bool restarts = line.record.seq == 1 && all_idle() && sequence_.waiting() == 0;
  const bool before_one = line.record.seq < 1;
  if (complaints_.news(LogRule::seq_order, line)) {
    Complaint complaint;
    complaint.rule = LogRule::seq_order;
    complaint.at = line;
    complaint.expected = fmt::format("seq {}", sequence_.next());
    complaint.found = fmt::format("seq {}", line.record.seq);
    if (current_ != nullptr) complaint.last = current_->last_good(line.record.action.stage);
    complaint.change = before_one ? "seq starts at 1: number the records from there"
                       : restarts ? "two runs stand in one log: check them one by one"
                                  : "give every record of the run its own seq";
    complaints_.add(std::move(complaint));
  } else {
    complaints_.count(LogRule::seq_order);
  }
  if (restarts && !line.record.step) {
    close(implied_step_++);
  } else if (restarts) {
    while (!open_.empty()) close(open_.begin()->first);
    closed_.reset();
  }
  // What stands at the head of a log that is numbered from elsewhere is a record like the others.
  return restarts || (before_one && records_ == 0);
}

StepJudge& LogCheck::judge_of(const LogLine& line) {
  const std::int64_t step = line.record.step.value_or(implied_step_);
  if (current_ != nullptr && step == current_step_) return *current_;
  const auto found = open_.find(step);
  if (found == open_.end()) {
    open(step);
  } else {
    current_ = &found->second;
    current_step_ = step;
  }
  return *current_;
}

void LogCheck::open(std::int64_t step) {
  // Steps end before the next begins; one that has something in flight may still go on.
  for (auto it = open_.begin(); it != open_.end();) {
    const std::int64_t candidate = it->first;
    const bool over = it->second.idle() && candidate < step;
    ++it;
    if (over) close(candidate);
  }
  if (open_.size() == most_open_steps) close(open_.begin()->first);
  const auto made = open_.try_emplace(step, track_, known_, complaints_).first;
  current_ = &made->second;
  current_step_ = step;
}

void LogCheck::close(std::int64_t step) {
  const auto found = open_.find(step);
  if (found == open_.end()) return;
  StepJudge& judge = found->second;
  const auto unfinished = judge.finish();
  ++steps_;
  closed_ = std::max(closed_.value_or(step), step);
  // The first whole step says most; of broken ones, the one that got furthest.
  const bool better = judge.facts().whole && !facts_.whole;
  if (!have_facts_ || better) facts_ = judge.facts();
  have_facts_ = true;
  cut_short_ |= judge.doubtful();
  const auto end = ends_.extract(step);
  complain_of_end(judge, unfinished, end ? end.mapped() : "");
  open_.erase(found);
  current_ = nullptr;
}

bool LogCheck::all_idle() const {
  return std::all_of(open_.begin(), open_.end(),
                     [](const auto& entry) { return entry.second.idle(); });
}

void LogCheck::refuse(const Source& source, LogReport& report) const {
  const LogProblem& problem = *source.problem;
  LogFinding& finding = report.findings.emplace_back();
  finding.rule = "unreadable";
  finding.log = source.name;
  finding.line = problem.line;
  finding.expected = problem.expected;
  finding.found = problem.found;
  finding.message = fmt::format("{}:{}:{}: expected {}, found {}", source.name, problem.line,
                                problem.column, problem.expected, problem.found);
  report.verdict = Verdict::rejected;
}

LogReport LogCheck::report(const LogFacts& facts) const {
  LogReport report;
  for (const Source& source : sources_) {
    if (source.problem) refuse(source, report);
  }
  report.records = records_;
  report.steps = steps_;
  if (report.verdict == Verdict::rejected) return report;
  Evidence evidence;
  evidence.plan = plan_.get();
  evidence.known = known_;
  evidence.facts = facts;
  // A log that is as planned needs no guesses.
  if (!plan_ || !complaints_.empty()) {
    evidence.inference = infer(facts);
    report.inference = evidence.inference;
  }
  for (const Source& source : sources_) evidence.logs.push_back(source.name);
  explain(complaints_, evidence, report);
  return report;
}

LogPicture LogCheck::picture(const LogReport& report) const {
  const auto first =
      std::find_if(report.findings.begin(), report.findings.end(),
                   [](const LogFinding& finding) { return finding.seq && finding.stage; });
  std::optional<LogPicture::Wrong> wrong;
  if (first != report.findings.end()) wrong = {*first->seq, *first->stage, first->rule};
  return LogPicture(plan_.get(), pictured_.value_or(MeasuredStep()), wrong);
}

LogReport LogCheck::so_far() const {
  if (have_facts_ || open_.empty()) return report(facts_);
  return report(open_.begin()->second.facts());
}

LogReport LogCheck::finish() {
  for (std::size_t i = 0; i < sources_.size(); ++i) end(static_cast<int>(i));
  if (numbering_ == Numbering::unknown) decide_numbering(true);
  sequence_.finish(*this);
  judge_kept();
  while (!open_.empty()) close(open_.begin()->first);
  complain_of_gap();
  if ((cut_short_ || records_ == 0) && !complaints_.of(LogRule::truncated)) {
    Complaint complaint;
    complaint.rule = LogRule::truncated;
    complaint.at = last_;
    complaint.has_record = records_ > 0;
    complaint.expected = cut_short_ ? "the rest of the last line" : "records";
    complaint.found = cut_short_ ? "the end, in the middle of a line" : "none";
    complaints_.add(std::move(complaint));
  }
  return report(facts_);
}

}  // namespace sluice
