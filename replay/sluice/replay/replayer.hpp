// Replayer: a director that answers from a recording, and says whether the run is still the same.
//
// Give it to a pipeline like the one that was recorded, and run steps while `more()`. Each rank runs
// exactly the actions recorded for it, waiting for each as long as it takes; what a scheduler, another
// number of threads or another policy would have preferred plays no part. Everything that happens is
// compared with the recording. The first difference, by causal order and hence the same on any number
// of threads, ends the step, and every further step before it starts.
//
// A failed step fails again with its error, a stuck one ends stuck, and a recording that ends inside a
// step ends that step there. What the recording does not know, such as time, is not compared. Told to go
// to a point (replay_point.hpp), it stops there, calls sluice_stop_here and goes on, or lets another
// director take over.
//
// Lives as long as the pipeline. Calls arrive as Director promises them; the rest between steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/director.hpp>
#include <sluice/replay/divergence.hpp>
#include <sluice/replay/rank_replayer.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/replay_point.hpp>

namespace sluice::replay {

enum class Verdict : std::uint8_t {
  same,
  diverged,
  failed_as_recorded,  ///< the last step failed, with the recorded error
  stuck_as_recorded,   ///< the last step was stuck, in the recorded state
  recording_ends,      ///< the same as far as the recording goes, but the run had gone on
  failed_live,         ///< the same up to the hand-over; a step that went on live failed
  nothing_replayed,    ///< no step has been run, so there is nothing to say
  refused,             ///< not comparable: see identity.hpp. Never a Replayer's own verdict
};

/// `same`, `diverged`, `failed-as-recorded`, `stuck-as-recorded`, `recording-ends`, `failed-live`,
/// `nothing-replayed`, `refused`.
std::string_view to_string(Verdict verdict);

struct ReplayOptions {
  std::optional<ReplayPoint> until;
  HandOver then = HandOver::stop;
  /// The stages are stubs: their outputs, and what they read from outside, are taken to be as recorded.
  bool schedule_only = false;
  /// Keep the last decisions of each rank in the step `keep_decisions_in`; for investigation.hpp.
  std::optional<std::int64_t> keep_decisions_in;
};

class Replayer final : public Director {
 public:
  /// `inner`, which may be null unless it is to take over, sees every event, so that its policies can
  /// take over, but is not asked before. Throws std::invalid_argument when a pipeline of `plan` has
  /// other stages or ranks than the recorded one.
  Replayer(std::shared_ptr<const Recording> recording, const Plan& plan,
           std::shared_ptr<Director> inner = nullptr, ReplayOptions options = {});

  /// Throws std::runtime_error when the replay has diverged or stopped, or no recorded step is left.
  std::unique_ptr<RankDirector> for_rank(const Plan& plan, RankId rank, std::int64_t step) override;
  void before_commit(std::int64_t step) override;
  void step_ended(const StepEnd& end) override;

  /// Whether another step can be replayed.
  bool more() const { return !divergence_ && !reached_ && steps_ < recording_->steps(); }
  /// Whether the replay has come to its point and stopped, or is live.
  bool reached() const { return reached_; }

  /// On the steps replayed so far; of one that has stopped or is live, on what came before, and on whether
  /// what came live has failed.
  Verdict verdict() const;
  const std::optional<Divergence>& divergence() const { return divergence_; }
  /// The last decisions before the divergence, in the order of the log.
  const std::vector<Decision>& decisions() const { return decisions_; }
  std::size_t steps() const { return steps_; }       ///< replayed
  std::int64_t actions() const { return actions_; }  ///< compared and equal
  std::int64_t events() const { return events_; }    ///< compared and equal
  /// How many outputs and states have been compared. When there are none, `same` is said of the
  /// schedule alone.
  std::int64_t hashes() const { return hashes_; }
  /// How many actions have ended without an output to compare: their stages promise no bits, or the
  /// recording has no hashes.
  std::int64_t unhashed() const { return unhashed_; }
  /// How many values from outside came from the recording, and under which names.
  std::int64_t outside_values() const { return outside_values_; }
  const std::set<std::string>& outside_names() const { return outside_names_; }

 private:
  void conclude(const StepEnd& end);
  void count(const ReplayedStep& step);
  void diverge(const ReplayedStep& step, const Mismatch& mismatch);

  std::shared_ptr<const Recording> recording_;
  std::shared_ptr<Director> inner_;
  ReplayOptions options_;
  std::shared_ptr<ReplayedStep> step_;  // the running one
  std::size_t steps_ = 0;
  std::string last_error_;  // of the last step replayed
  bool ends_inside_ = false;
  bool reached_ = false;
  bool failed_live_ = false;
  std::optional<Divergence> divergence_;
  std::vector<Decision> decisions_;
  std::int64_t actions_ = 0;
  std::int64_t events_ = 0;
  std::int64_t hashes_ = 0;
  std::int64_t unhashed_ = 0;
  std::int64_t outside_values_ = 0;
  std::set<std::string> outside_names_;
};

/// What a replay has compared and what it has not, a line each: the actions, the outputs and states, the
/// values from outside. `unrecorded`: what the stages read past the recording, as far as their author
/// says; nothing is claimed of it, nor of what nobody has named.
std::string coverage_of(const Replayer& replayer, std::span<const std::string> unrecorded = {});

}  // namespace sluice::replay
