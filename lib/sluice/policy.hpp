// Policies: which of the ready actions a rank runs next.
//
// Two come with the library: the fixed order of a plan, and the law itself applied to what has
// really arrived. A user writes a third by deriving from RankPolicy. Called on the rank's own
// executor; must not block. A policy that waits when nothing more can arrive ends the step as stuck.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <sluice/event.hpp>
#include <sluice/ids.hpp>
#include <sluice/plan.hpp>

namespace sluice {

/// One of the things a rank could do now.
struct Option {
  enum class Kind : std::uint8_t {
    run,   ///< start this action: its input is here
    wait,  ///< until something arrives; always offered
    stop,  ///< the step is to end: run nothing more; offered from then on
  };

  Kind kind = Kind::wait;
  Action action;
};

/// The actions of one rank whose inputs are here, by (stage, phase, mb).
class ReadyView {
 public:
  explicit ReadyView(std::span<const Option> runnable) : runnable_(runnable) {}

  std::size_t size() const { return runnable_.size(); }
  const Action& operator[](std::size_t index) const { return runnable_[index].action; }

  /// Where `action` stands in the view; nothing when its input is not here yet.
  std::optional<std::size_t> find(const Action& action) const;

 private:
  std::span<const Option> runnable_;
};

/// Chooses for one rank, through one step.
class RankPolicy {
 public:
  virtual ~RankPolicy() = default;

  /// Index into `ready`, or nothing: wait for an arrival. May be asked again without anything
  /// having happened; state changes belong in `observe`.
  virtual std::optional<std::size_t> choose(const ReadyView& ready) = 0;

  /// What the rank has done, whoever chose it.
  virtual void observe(const Event& event) = 0;

  /// Everything that future answers depend on, exactly: two policies of one rank with the same
  /// fingerprint answer alike for ever. Lets an explorer merge states and call a search complete.
  virtual std::optional<std::uint64_t> fingerprint() const { return std::nullopt; }
};

class Policy {
 public:
  virtual ~Policy() = default;
  /// A new policy for one rank and one step; `plan` outlives it.
  virtual std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) = 0;
};

/// Runs `plan.order` as it stands.
class FixedOrder final : public Policy {
 public:
  std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override;
};

/// Applies the law of the drain depth at run time: a slow stage does not stall the others, within
/// the same credits. Requires one stage a rank and a backward that is not split.
class Adaptive final : public Policy {
 public:
  std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override;
};

/// The policy that `plan.order_mode` names.
std::shared_ptr<Policy> policy_for(const Plan& plan);

}  // namespace sluice
