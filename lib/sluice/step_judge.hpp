// StepJudge: one step's records, in the order of their seq, against the rules.
//
// Causes come first: an action may start when what it takes has ended, a rank does one thing at a
// time, every microbatch passes every stage once in each phase. With a plan, also its ids, credits,
// gate and order. A record whose cause is missing is not wrong yet: it waits, because what it waits
// for may come later (then the order is wrong), never (then that is what is wrong), or may have been
// lost with a seq that is missing (then nothing can be said). Memory follows what is in flight.
//
// LogCheck has one for each step that is open; one caller at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sluice/complaints.hpp>
#include <sluice/log_facts.hpp>
#include <sluice/log_line.hpp>
#include <sluice/plan_track.hpp>
#include <sluice/progress.hpp>
#include <sluice/rank_lanes.hpp>
#include <sluice/suspicions.hpp>
#include <sluice/unfinished.hpp>

namespace sluice {

class StepJudge {
 public:
  /// `track` follows the plan, or is nothing; `known` is the plan's shape, or what there is of one
  /// without it; `complaints` outlives the judge.
  StepJudge(std::optional<PlanTrack> track, const KnownShape& known, Complaints& complaints);

  /// The next record by seq. False, and nothing done, for the first action of a step that has been
  /// done already while nothing is in flight: the log has gone on to its next step.
  bool record(const LogLine& line);
  /// `count` records are missing here.
  void lost(std::int64_t count);
  /// Nothing more comes. Settles what was waiting, and says what is unfinished, if anything.
  std::optional<Unfinished> finish();

  bool idle() const { return progress_.idle(); }
  /// The last record was wrong in a way that a line cut short explains.
  bool doubtful() const { return doubtful_; }
  const LogFacts& facts() const { return facts_; }
  /// The stage's last record that was as it should be.
  LastGood last_good(StageId stage) const {
    return stage.index() < turns_.size() ? turns_[stage.index()].last : LastGood();
  }

 private:
  /// What the log has shown of a stage's own order.
  struct Turn {
    std::array<std::int32_t, 3> due{};  // per kind: the microbatch that comes next
    bool descending = false;            // backwards run from the last microbatch to the first
    LastGood last;
  };

  void add_stages(std::size_t stages);
  bool exists(const LogLine& line);
  bool keeps_its_rank(const LogLine& line);
  bool is_last(StageId stage) const { return stage.index() + 1 == turns_.size(); }
  Turn& turn_of(StageId stage) { return turns_[stage.index()]; }
  bool restarts(const LogLine& line, std::uint32_t flags) const;

  void enter(const LogLine& line, std::uint32_t flags);
  void exit(const LogLine& line, std::uint32_t flags);
  void check_forward(const LogLine& line);
  void check_gradient(const LogLine& line, std::uint32_t flags);
  void check_turn(const LogLine& line);
  void check_lane(const LogLine& line);
  void check_pace(const LogLine& line);
  void happen(StageId stage, MicrobatchId mb, std::uint32_t event, std::uint32_t extra = 0);
  bool excuse(StageId stage, MicrobatchId mb, std::uint32_t events);

  bool may_overlap(const detail::RankLanes::Running& running, const Action& action) const;

  void suspect(StageId stage, MicrobatchId mb, std::uint32_t event, LogRule if_late,
               const LogLine& at);
  void settle_late(StageId stage, MicrobatchId mb, std::uint32_t event, std::uint32_t flags);
  void settle_never();
  void complain(LogRule rule, const LogLine& at, const LastGood& last, std::string expected,
                std::string due = {});
  void complain_of_silence(StageId stage, const LogLine& at);
  std::string due_on(StageId stage) const;
  std::int64_t count_missing();
  void find_silent_stages();

  std::optional<PlanTrack> track_;
  KnownShape known_;
  Complaints* complaints_;
  detail::Progress progress_;
  std::vector<Turn> turns_;  // per stage
  detail::RankLanes lanes_;
  Suspicions suspicions_;
  LogFacts facts_;
  std::int64_t entered_ = 0;
  std::int64_t lost_ = 0;
  std::int64_t budget_ = 0;  // of the lost ones, how many have not been missed yet
  bool clean_ = true;        // nothing wrong with the record at hand so far
  bool doubtful_ = false;
};

}  // namespace sluice
