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
#include <sluice/in_flight.hpp>
#include <sluice/log_facts.hpp>
#include <sluice/log_line.hpp>
#include <sluice/plan_track.hpp>

namespace sluice {

/// Where a log stops with work unfinished.
struct Unfinished {
  std::vector<std::string> open;     ///< `stage 1: 1B2 exit`, by stage: entered and not left
  std::vector<std::string> waiting;  ///< `stage 3: 3F3`, by stage: its input is there
  std::optional<StageId> behind;     ///< where most inputs lie waiting
  std::int64_t held = 0;             ///< (stage, microbatch) pairs begun and not finished
  /// Everything has gone forward, nothing runs, and the last stage sits on microbatches.
  bool gate_shut = false;
};

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

  bool idle() const { return in_flight_.size() == 0; }
  /// The last record was wrong in a way that a line cut short explains.
  bool doubtful() const { return doubtful_; }
  const LogFacts& facts() const { return facts_; }
  /// The stage's last record that was as it should be.
  LastGood last_good(StageId stage) const {
    return stage.index() < stages_.size() ? stages_[stage.index()].last : LastGood();
  }

 private:
  using Key = detail::InFlight::Key;
  enum Kind : std::uint8_t { forward, gradient, weight };

  struct StageState {
    std::array<std::int32_t, 3> next{};     // per kind: the microbatch that is due
    std::array<std::int32_t, 3> entered{};  // per kind: how many
    std::array<std::int32_t, 3> exited{};
    int held = 0;
    std::int32_t done_below = 0;  // all microbatches before it are finished here
    bool descending = false;      // backwards run from the last microbatch to the first
    LastGood last;
  };
  /// A record that waits for an event of another action.
  struct Suspicion {
    Key node = 0;
    std::uint32_t event = 0;
    LogRule if_late = LogRule::forward_order;
    LogLine at;
    LastGood last;
  };
  /// What a rank is running, as (node << 2 | kind) + 1; 0 for nothing.
  using Lane = std::array<Key, 2>;

  static Kind kind_of(Phase phase);

  bool exists(const LogLine& line);
  std::uint32_t flags_of(StageId stage, MicrobatchId mb) const;
  StageState& state_of(StageId stage) { return stages_[stage.index()]; }
  bool is_last(StageId stage) const;
  bool restarts(const LogLine& line, std::uint32_t flags) const;

  void enter(const LogLine& line, std::uint32_t flags);
  void exit(const LogLine& line, std::uint32_t flags);
  void check_forward(const LogLine& line);
  void check_gradient(const LogLine& line, std::uint32_t flags);
  void check_turn(const LogLine& line);
  void check_lane(const LogLine& line);
  void check_pace(const LogLine& line);
  void happen(StageId stage, MicrobatchId mb, std::uint32_t event, std::uint32_t extra = 0);
  void release(StageId stage, MicrobatchId mb);
  bool excuse(StageId stage, MicrobatchId mb, std::uint32_t events);

  Lane& lane_of(StageId stage);
  bool may_overlap(Key open, const Action& action) const;

  void suspect(StageId stage, MicrobatchId mb, std::uint32_t event, LogRule if_late,
               const LogLine& at);
  void settle_late(Key node, std::uint32_t event);
  void settle_never();
  void complain(LogRule rule, const LogLine& at, const LastGood& last, std::string expected,
                std::string due = {});
  std::string due_on(StageId stage) const;
  bool enough(std::int64_t missing) const;
  Unfinished describe_unfinished() const;

  std::optional<PlanTrack> track_;
  KnownShape known_;
  Complaints* complaints_;
  detail::InFlight in_flight_;
  std::vector<StageState> stages_;
  std::vector<Lane> rank_lanes_;
  std::vector<Lane> stage_lanes_;  // where no rank is known
  std::vector<Suspicion> suspicions_;
  LogFacts facts_;
  std::int64_t entered_ = 0;
  std::int64_t lost_ = 0;
  std::int64_t budget_ = 0;  // of the lost ones, how many have not been missed yet
  bool clean_ = true;        // nothing wrong with the record at hand so far
  bool doubtful_ = false;
};

}  // namespace sluice
