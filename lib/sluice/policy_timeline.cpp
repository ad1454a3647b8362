#include <sluice/policy_timeline.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/engine.hpp>
#include <sluice/split_table.hpp>

namespace sluice {
namespace {

/// Asks a policy's view of every rank.
class PolicyDecider {
 public:
  PolicyDecider(const Plan& plan, Policy& policy)
      : split_(plan),
        rank_of_(plan.rank_of),
        microbatches_(plan.microbatches),
        let_in_(MicrobatchId(1 + std::int64_t{plan.credits.front()})),
        first_(static_cast<std::size_t>(plan.stages)),
        ranks_(static_cast<std::size_t>(plan.ranks)) {
    for (auto& of_stage : started_) {
      of_stage.resize(static_cast<std::size_t>(plan.stages),
                      std::vector<bool>(static_cast<std::size_t>(microbatches_), false));
    }
    for (std::size_t s = 0; s < plan.rank_of.size(); ++s) {
      ranks_[plan.rank_of[s].index()].stages.push_back(StageId(static_cast<std::int64_t>(s)));
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].policy = policy.for_rank(plan, RankId(static_cast<std::int64_t>(r)));
      ranks_[r].to_start = plan.order[r].size();
    }
  }

  std::optional<Action> next(RankId rank, const detail::Board& board) {
    PerRank& of_rank = ranks_[rank.index()];
    gather(of_rank, board);
    if (of_rank.ready.empty()) return std::nullopt;
    const auto chosen = of_rank.policy->choose(ReadyView(of_rank.ready));
    if (!chosen) return std::nullopt;
    if (*chosen >= of_rank.ready.size()) {
      throw std::out_of_range(
          fmt::format("the policy of rank {} chose option {}: expected less than {}, the actions "
                      "that are ready, or none of them",
                      rank.value, *chosen, of_rank.ready.size()));
    }
    return of_rank.ready[*chosen].action;
  }

  /// Only whether there is anything left: what a policy waits for is its own secret.
  std::optional<Action> wanted(RankId rank) const {
    const PerRank& of_rank = ranks_[rank.index()];
    if (of_rank.to_start == 0) return std::nullopt;
    for (const StageId stage : of_rank.stages) {
      for (MicrobatchId mb(0); mb.value < microbatches_; mb = mb.next()) {
        for (const Phase phase : phases_of(stage, mb)) {
          if (!started(stage, phase, mb)) return Action(stage, phase, mb);
        }
      }
    }
    return std::nullopt;
  }

  static std::optional<Action> partner(RankId) { return std::nullopt; }

  void started(RankId rank, const Action& action) {
    started_[static_cast<std::size_t>(action.phase)][action.stage.index()][action.mb.index()] =
        true;
    --ranks_[rank.index()].to_start;
    tell(Event::Kind::enter, rank, action);
  }

  void ended(const Action& action) {
    if (releases(action.phase) && action.stage == StageId(0)) let_in_ = let_in_.next();
    tell(Event::Kind::exit, rank_of_[action.stage.index()], action);
  }

  /// What each rank that is not done could have started when it was last asked.
  std::string waits() const {
    std::string text;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].to_start == 0) continue;
      text += fmt::format("{}rank {} ", text.empty() ? "" : "; ", r);
      if (ranks_[r].ready.empty()) {
        text += "has nothing it could start";
        continue;
      }
      text += "waits and could start";
      for (const Option& option : ranks_[r].ready) text += ' ' + to_string(option.action);
    }
    return text;
  }

 private:
  struct PerRank {
    std::unique_ptr<RankPolicy> policy;
    std::vector<StageId> stages;
    std::vector<Option> ready;  // by (stage, phase, mb)
    std::size_t to_start = 0;
    std::int64_t events = 0;
  };

  std::span<const Phase> phases_of(StageId stage, MicrobatchId mb) const {
    static constexpr std::array whole{Phase::forward, Phase::backward};
    static constexpr std::array split{Phase::forward, Phase::input_gradient,
                                      Phase::weight_gradient};
    if (split_.is_split(stage, mb)) return split;
    return whole;
  }

  bool started(StageId stage, Phase phase, MicrobatchId mb) const {
    return started_[static_cast<std::size_t>(phase)][stage.index()][mb.index()];
  }

  bool done(StageId stage, MicrobatchId mb) const {
    const auto phases = phases_of(stage, mb);
    return std::all_of(phases.begin(), phases.end(),
                       [&](Phase phase) { return started(stage, phase, mb); });
  }

  void gather(PerRank& of_rank, const detail::Board& board) {
    of_rank.ready.clear();
    for (const StageId stage : of_rank.stages) {
      MicrobatchId& first = first_[stage.index()];
      while (first.value < microbatches_ && done(stage, first)) first = first.next();
      for (MicrobatchId mb = first; mb.value < microbatches_ && mb < let_in_; mb = mb.next()) {
        for (const Phase phase : phases_of(stage, mb)) {
          const Action action(stage, phase, mb);
          if (started(stage, phase, mb) || !board.has_input(action) || !board.has_slot(action)) {
            continue;
          }
          of_rank.ready.push_back(Option{Option::Kind::run, action});
        }
      }
    }
    std::sort(of_rank.ready.begin(), of_rank.ready.end(),
              [](const Option& a, const Option& b) { return a.action < b.action; });
  }

  void tell(Event::Kind kind, RankId rank, const Action& action) {
    PerRank& of_rank = ranks_[rank.index()];
    Event event;
    event.kind = kind;
    event.rank = rank;
    event.action = action;
    event.local = of_rank.events++;
    of_rank.policy->observe(event);
  }

  detail::SplitTable split_;
  std::span<const RankId> rank_of_;  // per stage
  int microbatches_;
  // The first that has not been let in: as at run time, where the door lets in what stage 0 may hold,
  // and one more.
  MicrobatchId let_in_;
  std::array<std::vector<std::vector<bool>>, 4> started_;  // by phase, stage, microbatch
  std::vector<MicrobatchId> first_;                        // per stage: all before it are done
  std::vector<PerRank> ranks_;
};

}  // namespace

Timeline simulate_policy(const Plan& plan, Policy& policy) {
  PolicyDecider decider(plan, policy);
  SimulationOptions options;
  options.slots = plan.slots;
  std::size_t actions = 0;
  for (const auto& of_rank : plan.order) actions += of_rank.size();
  detail::Engine engine(decider, plan.rank_of, plan.ranks, plan.microbatches, plan.costs, options);
  try {
    return engine.run(actions);
  } catch (const StuckError&) {
    throw PolicyStuckError(
        fmt::format("the policy waits where nothing more can arrive: {}", decider.waits()));
  }
}

}  // namespace sluice
