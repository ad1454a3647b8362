// The director: the one seam. Every choice that timing could sway goes through `choose`, and
// everything that happened goes to `observe`.
//
// Live, the director asks the rank's policy. A recorder wraps a director; a replayer answers from a
// recording; an explorer answers from a strategy. Nothing else in the runtime knows that any of
// them exist. Both calls are made on the rank's own executor and never suspend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <sluice/event.hpp>
#include <sluice/ids.hpp>
#include <sluice/plan.hpp>
#include <sluice/policy.hpp>

namespace sluice {

/// Where in the run a choice is made.
struct ChoicePoint {
  std::int64_t step = 0;
  RankId rank;
  std::int64_t position = 0;  ///< how many actions this rank has started in this step
};

/// A value from outside that a stage function asks for: a clock, a network, anything.
struct OutsideValue {
  std::int64_t step = 0;
  Action action;
  std::string_view name;
  int occurrence = 0;  ///< of this name in this action, from 0
};

/// A value that an action was given, as WireTraits<Value>::encode says it.
struct InboundValue {
  enum class Role : std::uint8_t {
    input,   ///< what came from the neighbouring stage, or from the batch source
    target,  ///< of its microbatch, on the last stage
  };

  Action action;
  Role role = Role::input;
  std::string_view bytes;
};

/// Which of them a director wants to see.
enum class InboundValues : std::uint8_t { none, of_failures, all };

/// Directs one rank through one step.
class RankDirector {
 public:
  virtual ~RankDirector() = default;

  /// Index of the chosen option. `options` holds the ready actions by (stage, phase, mb), then
  /// wait, then stop when the step is to end.
  virtual std::size_t choose(const ChoicePoint& point, std::span<const Option> options) = 0;

  /// Called before the effect of the event leaves the rank.
  virtual void observe(const Event& event) = 0;

  /// The bytes of an outside value: live what `read` returns, on replay what it returned then.
  virtual std::string outside(const OutsideValue& value, const std::function<std::string()>& read) {
    static_cast<void>(value);
    return read();
  }

  /// Which values `inbound` wants to see, where their type can be encoded.
  virtual InboundValues wants_inbound() const { return InboundValues::none; }

  /// Called for the running action: for all, as soon as it has been entered; for failures, before
  /// `observe` hears of the failure.
  virtual void inbound(const InboundValue& value) { static_cast<void>(value); }

  /// Whether `observe` wants values and states hashed.
  virtual bool wants_hashes() const { return false; }
};

class StepError;
struct StepResult;

/// How a step has ended.
struct StepEnd {
  std::int64_t step = 0;
  const StepError* error = nullptr;    ///< null: none
  const StepResult* result = nullptr;  ///< null when there was an error
};

/// Makes the directors of a step. Lives as long as the pipeline that was given it.
class Director {
 public:
  virtual ~Director() = default;

  /// Called for every rank before the step starts, from the coroutine that runs the step.
  virtual std::unique_ptr<RankDirector> for_rank(const Plan& plan, RankId rank,
                                                 std::int64_t step) = 0;

  /// Every action has run, and the update is about to be applied. What this throws ends the step
  /// instead: so a replay stops where the recorded run was cancelled after its last action.
  virtual void before_commit(std::int64_t step) { static_cast<void>(step); }

  /// Called once all ranks are done, from the coroutine that runs the step.
  virtual void step_ended(const StepEnd& end) = 0;
};

/// Asks a policy, and stops as soon as it may.
class LiveDirector final : public Director {
 public:
  explicit LiveDirector(std::shared_ptr<Policy> policy) : policy_(std::move(policy)) {}

  std::unique_ptr<RankDirector> for_rank(const Plan& plan, RankId rank, std::int64_t step) override;
  void step_ended(const StepEnd&) override {}

 private:
  std::shared_ptr<Policy> policy_;
};

}  // namespace sluice
