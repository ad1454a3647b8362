// PlanModel: a step of a plan as a transition system, small enough to be searched whole.
//
// A state is what every rank has done and whether it is inside an action; a move is one rank starting the
// action that its policy chooses, or ending the one it runs. Which actions are ready follows from what
// the neighbours have ended, from the free slots and from the room at the door; which of them is taken
// is asked of the very policies that the runtime asks. No clock, no values, no coroutines.
//
// What a rank has done is interned: a state of S ranks is S numbers. Policies are told kind, rank and
// action of an event and nothing else. One thread; the plan and the policy outlive the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sluice/event.hpp>
#include <sluice/ids.hpp>
#include <sluice/plan.hpp>
#include <sluice/policy.hpp>
#include <sluice/split_table.hpp>
#include <sluice/wait_graph.hpp>

namespace sluice::replay {

class PlanModel {
 public:
  /// By rank: the number of what it has done so far.
  using State = std::vector<std::uint32_t>;

  /// `by_law`: the gate and the order of microbatches are among the rules; a policy of one's own keeps to
  /// the credits alone.
  PlanModel(const Plan& plan, Policy& policy, bool by_law) : PlanModel(plan, &policy, by_law) {}
  /// To judge events alone, whoever brings them about: nobody asks it for the `next`.
  PlanModel(const Plan& plan, bool by_law) : PlanModel(plan, nullptr, by_law) {}

  State start() const { return State(ranks_.size(), 0); }

  /// Of one rank in a state: the event that it would bring about next; nothing when it has to wait.
  /// Throws std::out_of_range when the policy answers with an option that it was not offered.
  std::optional<Event> next(std::span<const std::uint32_t> state, RankId rank);
  /// The number of what the rank has done after `event`, which `next` has given.
  std::uint32_t after(std::span<const std::uint32_t> state, const Event& event);

  /// Every rank has run all its actions.
  bool finished(std::span<const std::uint32_t> state) const;
  /// What is wrong with `event`, an enter or an exit, whoever brought it about: a rule of the law, or what
  /// no order of events can be. `over-credit: ...`; empty when nothing is.
  std::string violation(std::span<const std::uint32_t> state, const Event& event) const;
  /// Who waits for what, slots included; the cycle first.
  WaitGraph waits(std::span<const std::uint32_t> state) const;

  /// Whether every policy met so far has a fingerprint: only then are states merged by what matters,
  /// and is a finished search complete.
  bool visible() const { return visible_; }
  const Plan& plan() const { return plan_; }
  /// Bytes of all that has been interned, roughly.
  std::size_t size() const { return size_; }

 private:
  PlanModel(const Plan& plan, Policy* policy, bool by_law);

  /// What one rank has done.
  struct Local {
    std::vector<std::uint8_t> cells;  // of its stages, microbatch by microbatch
    std::vector<int> held;            // of its stages
    std::optional<Action> running;
    RankPosition position;
    std::unique_ptr<RankPolicy>
        policy;  // in the state that this history has brought it to; or none
    std::uint32_t before = 0;
    Event event;                                           // that led here from `before`
    std::vector<std::pair<Event, std::uint32_t>> further;  // known continuations
  };
  struct Rank {
    std::vector<StageId> stages;
    std::size_t actions = 0;
    std::vector<std::unique_ptr<Local>> locals;
    std::unordered_map<std::string, std::uint32_t> numbers;  // by everything that matters, as bytes
  };

  const Local& local(std::span<const std::uint32_t> state, RankId rank) const {
    return *ranks_[rank.index()].locals[state[rank.index()]];
  }
  std::uint8_t cell(std::span<const std::uint32_t> state, StageId stage, MicrobatchId mb) const;
  bool ready(std::span<const std::uint32_t> state, const Action& action) const;
  int admitted(std::span<const std::uint32_t> state) const;
  bool has_input(std::span<const std::uint32_t> state, const Action& action) const;
  bool has_slot(std::span<const std::uint32_t> state, const Action& action) const;
  bool handed_over(std::span<const std::uint32_t> state, RankId rank) const;
  std::optional<StageId> receiver(const Action& action) const;
  std::string wrong_enter(std::span<const std::uint32_t> state, const Action& action) const;
  Phase releasing(StageId stage, MicrobatchId mb) const;
  std::uint32_t intern(Rank& rank, std::unique_ptr<Local> local, std::uint32_t before);
  std::unique_ptr<RankPolicy> policy_after(RankId rank, std::uint32_t history);

  const Plan& plan_;
  Policy* policy_;
  bool by_law_;
  detail::SplitTable split_;
  std::vector<Rank> ranks_;
  std::vector<std::size_t> place_of_stage_;  // among the stages of its rank
  std::vector<Option> options_;
  bool visible_ = true;
  std::size_t size_ = 0;
};

}  // namespace sluice::replay
