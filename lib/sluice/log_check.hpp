// LogCheck: any number of logs of one run, held against the timeline they should have been.
//
//     LogCheck check(plan);                         or without a plan: the log against itself
//     const int log = check.add("run.log");
//     while (read(bytes)) check.feed(log, bytes);
//     const LogReport report = check.finish();
//
// Logs that share their numbers are judged as they come. Logs that each count for themselves, and
// records without a seq, are kept until finish(), because their order has to be found first.
// Bytes may come in any pieces and lines in any order; the report is the same. Called by whoever has
// the bytes, an embedder or sluice check; no files, no clock. Memory follows what is in flight and
// how far the lines are out of order. One caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sluice/complaints.hpp>
#include <sluice/log_merge.hpp>
#include <sluice/log_picture.hpp>
#include <sluice/log_reader.hpp>
#include <sluice/log_report.hpp>
#include <sluice/log_sequence.hpp>
#include <sluice/step_judge.hpp>

namespace sluice {

class LogCheck {
 public:
  /// Records that may wait for one with a lower seq before that one is given up for lost.
  static constexpr std::size_t default_window = std::size_t{1} << 20;

  /// `plan`, when there is one, is one with actions (Detail::actions).
  explicit LogCheck(std::optional<Plan> plan, std::size_t window = default_window);

  /// One more log; `name` is what findings call it. All are added before the first is fed. Returns
  /// its number.
  int add(std::string name);
  /// The same for a log in words of its own.
  int add(std::string name, LogReader::ForeignLine foreign);

  /// Without a plan: how many stages and microbatches there are, as far as that is known. Call it
  /// before the first feed().
  void expect(KnownShape shape) { known_ = shape; }

  void feed(int log, std::string_view bytes);
  /// The writer's own word for how a step ended that did not end well. Call it after the step's
  /// records were fed and before those of the next.
  void ended(std::int64_t step, std::string how) { ends_[step] = std::move(how); }
  /// The log is over.
  void end(int log);
  /// The log that should be fed next, so that little has to wait; nothing when all are over.
  std::optional<int> hungry() const;

  /// Keeps what a picture needs of the first step with a finding, or of the last step. Call it before
  /// the first feed().
  void keep_picture() { pictured_.emplace(); }
  /// Of that step, with an arrow at the first finding of the report that has a place in it.
  LogPicture picture(const LogReport& report) const;

  /// How far it has come: cheap to ask for, so that so_far() need not be asked in vain.
  struct Tally {
    std::int64_t records = 0;
    std::int64_t steps = 0;  // that are over
    std::size_t rules = 0;   // that are broken
  };
  Tally tally() const { return {records_, steps_, complaints_.rules()}; }

  /// What has been found by now. What is only missing so far, in a log that goes on, is no finding.
  LogReport so_far() const;

  /// Ends what has not ended. Not to be fed any more.
  LogReport finish();

 private:
  friend class LogSequence;
  struct Source {
    std::string name;
    LogReader reader;
    bool over = false;
    std::int64_t reached = 0;  // its highest seq so far
    std::optional<LogProblem> problem;

    bool usable() const { return !over && !problem; }
  };
  enum class Numbering : std::uint8_t {
    unknown,  // not every log has had a record yet
    shared,   // one seq for all
    own,      // each log counts for itself
    none,     // no seq at all
  };

  // What LogSequence tells.
  void record(const LogLine& line);
  void lost(std::int64_t first, std::int64_t last);
  bool again(const LogLine& line);

  void take(Source& source);
  void put(const LogLine& line);
  void decide_numbering(bool last_chance);
  void judge_kept();
  std::vector<LogLane> lanes_by_number();
  StepJudge& judge_of(const LogLine& line);
  void open(std::int64_t step);
  void close(std::int64_t step);
  void complain_of_end(const StepJudge& judge, const std::optional<Unfinished>& unfinished,
                       const std::string& how);
  bool all_idle() const;
  void refuse(const Source& source, LogReport& report) const;
  void complain_of_gap();
  LogReport report(const LogFacts& facts) const;

  std::unique_ptr<const Plan> plan_;
  KnownShape known_;
  std::map<std::int64_t, std::string> ends_;  // of steps that are open
  std::optional<PlanTrack> track_;
  std::vector<Source> sources_;
  std::vector<LogLine> batch_;
  LogSequence sequence_;
  Complaints complaints_;
  std::optional<MeasuredStep> pictured_;
  std::int64_t pictured_step_ = -1;
  std::map<std::int64_t, StepJudge> open_;
  StepJudge* current_ = nullptr;
  std::int64_t current_step_ = 0;
  std::int64_t implied_step_ = 0;       // of records that name none
  std::optional<std::int64_t> closed_;  // the highest step that is over
  LogFacts facts_;
  bool have_facts_ = false;
  LogLine last_;
  std::int64_t records_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t lost_ = 0;
  std::int64_t gaps_ = 0;
  std::int64_t first_lost_ = 0;
  std::int64_t first_lost_end_ = 0;
  Numbering numbering_ = Numbering::unknown;
  std::vector<LogLine> kept_;  // while the numbering is not known, and where it is not shared
  bool cut_short_ = false;
};

}  // namespace sluice
