// Replayer: a director that answers from a recording, and says whether the run is still the same.
//
// Give it to a pipeline like the one that was recorded, and run steps while `more()`. Each rank runs
// exactly the actions recorded for it, waiting for each as long as it takes; what a scheduler, another
// number of threads or another policy would have preferred plays no part. Everything that happens is
// compared with the recording. The first difference, by causal order and hence the same on any number
// of threads, ends the step, and every further step before it starts.
//
// A failed step fails again with its error, a stuck one ends stuck, and a recording that ends inside a
// step ends that step there. What the recording does not know, such as time, is not compared.
//
// Lives as long as the pipeline. Calls arrive as Director promises them; the rest between steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sluice/director.hpp>
#include <sluice/replay/divergence.hpp>
#include <sluice/replay/recording.hpp>

namespace sluice::replay {

enum class Verdict : std::uint8_t {
  same,
  diverged,
  failed_as_recorded,  ///< the last step failed, with the recorded error
  stuck_as_recorded,   ///< the last step was stuck, in the recorded state
  recording_ends,      ///< the same as far as the recording goes, but the run had gone on
  refused,             ///< not comparable: see identity.hpp. Never a Replayer's own verdict
};

/// `same`, `diverged`, `failed-as-recorded`, `stuck-as-recorded`, `recording-ends`, `refused`.
std::string_view to_string(Verdict verdict);

class Replayer final : public Director {
 public:
  /// `inner`, which may be null, sees every event, so that its policies could take over, but is never
  /// asked. Throws std::invalid_argument when a pipeline of `plan` has other stages or ranks than the
  /// recorded one.
  Replayer(std::shared_ptr<const Recording> recording, const Plan& plan,
           std::shared_ptr<Director> inner = nullptr);

  /// Throws std::runtime_error when the replay has diverged, or no recorded step is left.
  std::unique_ptr<RankDirector> for_rank(const Plan& plan, RankId rank, std::int64_t step) override;
  void before_commit(std::int64_t step) override;
  void step_ended(const StepEnd& end) override;

  /// Whether another step can be replayed.
  bool more() const { return !divergence_ && steps_ < recording_->steps(); }

  /// On the steps replayed so far.
  Verdict verdict() const;
  const std::optional<Divergence>& divergence() const { return divergence_; }
  std::size_t steps() const { return steps_; }       ///< replayed
  std::int64_t actions() const { return actions_; }  ///< compared and equal
  std::int64_t events() const { return events_; }    ///< compared and equal
  /// How many outputs and states have been compared. When there are none, `same` is said of the
  /// schedule alone.
  std::int64_t hashes() const { return hashes_; }

 private:
  class Rank;
  struct Step;

  void conclude(std::string_view error);

  std::shared_ptr<const Recording> recording_;
  std::shared_ptr<Director> inner_;
  std::shared_ptr<Step> step_;  // the running one
  std::size_t steps_ = 0;
  std::string last_error_;  // of the last step replayed
  bool ends_inside_ = false;
  std::optional<Divergence> divergence_;
  std::int64_t actions_ = 0;
  std::int64_t events_ = 0;
  std::int64_t hashes_ = 0;
};

}  // namespace sluice::replay
