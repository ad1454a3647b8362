// RankReplayer: one rank of one step under replay: answers from the recording, compares what happens.
//
// Made by the Replayer for each rank and step. Each rank writes its own part of the ReplayedStep on its
// own executor; the Replayer reads them when all are done.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/director.hpp>
#include <sluice/replay/divergence.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/replay_point.hpp>

namespace sluice::replay {

/// What follows when a replay has come to its point.
enum class HandOver : std::uint8_t {
  stop,    ///< the step ends there with an error; no rank has gone beyond
  resume,  ///< the replay goes on, once a debugger that waits in sluice_stop_here has let it
  live,    ///< the inner director decides from there on, and in all further steps
};

/// A choice that was answered with an action.
struct Decision {
  std::int64_t seq = 0;    ///< of the action's enter in the text log; known once the step has ended
  std::int64_t local = 0;  ///< its number among its rank's events in the step
  RankId rank;
  Action action;
  std::vector<Action> ready;  ///< found, at that moment; it depends on timing
};

/// How many of the last decisions before a difference are kept for its report.
inline constexpr std::size_t decisions_kept = 64;

struct ReplayedStep {
  struct OfRank {
    std::size_t agreed = 0;  ///< events
    std::int64_t hashes = 0;
    std::int64_t outside = 0;  ///< values from outside
    std::optional<Mismatch> mismatch;
    std::vector<Action> ready;  ///< at the last choice
    /// The first thing that is not as recorded and explains what follows it; a difference by itself
    /// only where nothing else differs.
    std::optional<Mismatch> suspicious;
    std::deque<Decision> decisions;
  };

  RecordedStep recorded;  ///< up to the point where another one takes over, if one does
  std::vector<OfRank> ranks;
  Order order;  ///< planned for this step by the pipeline that replays
  std::vector<int> credits;
  std::optional<ReplayPoint> point;  ///< when it is in this step
  HandOver then = HandOver::stop;
  std::size_t event_at_point = 0;             ///< number of the event at the point on its rank
  std::atomic<std::size_t> ranks_to_come{0};  ///< until all are at the point, to stop there
  bool schedule_only = false;
  bool keep_decisions = false;

  /// `cut`: where to stop or hand over, or to call the debugger.
  ReplayedStep(RecordedStep step, const Plan& plan, const ReplayPoint* cut, HandOver what_then);
};

/// The causally first thing of all ranks that is not as recorded, and no difference by itself, among
/// each rank's first `before` events; empty when there is none.
std::string first_suspicious(const ReplayedStep& step, const std::vector<std::size_t>& before);

class RankReplayer final : public RankDirector {
 public:
  /// `inner`, which may be null unless it is to take over, sees everything.
  RankReplayer(std::shared_ptr<ReplayedStep> step, RankId rank, bool verify,
               std::unique_ptr<RankDirector> inner);

  std::size_t choose(const ChoicePoint& point, std::span<const Option> options) override;
  void observe(const Event& event) override;
  /// What the recorded run read, without asking the outside.
  std::string outside(const OutsideValue& value, const std::function<std::string()>& read) override;
  bool wants_hashes() const override;

 private:
  const std::vector<Event>& events() const { return step_->recorded.ranks[rank_.index()]; }
  /// The next recorded event; null where the recorded sequence has ended.
  const Event* expected() const {
    return mine_.agreed < events().size() ? &events()[mine_.agreed] : nullptr;
  }
  const RecordedOutside* next_outside() const;
  void compare_with_recorded(const Event& event);
  void suspect(const Event& recorded, const Event& found);
  void outside_differs(const Action& action, std::string_view found);
  void found_more_actions();
  [[noreturn]] void diverged() const;
  void remember(const ReadyView& ready);
  void decided(const Action& action);
  void reached_the_point();

  std::shared_ptr<ReplayedStep> step_;
  RankId rank_;
  bool verify_;
  std::unique_ptr<RankDirector> inner_;
  ReplayedStep::OfRank& mine_;
  std::size_t outside_read_ = 0;
  bool at_the_point_ = false;
  bool live_ = false;
};

}  // namespace sluice::replay
