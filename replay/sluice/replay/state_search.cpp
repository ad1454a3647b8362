#include <sluice/replay/state_search.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <sluice/replay/plan_model.hpp>

namespace sluice::replay {
namespace {

/// States by number, in the order in which they were met; each once. Open addressing over one array.
class StateSet {
 public:
  using Number = std::uint32_t;
  static constexpr Number none = std::numeric_limits<Number>::max();

  explicit StateSet(std::size_t ranks) : ranks_(ranks), table_(1024, none) {}

  std::size_t size() const { return size_; }
  std::span<const std::uint32_t> operator[](Number number) const {
    return std::span(words_).subspan(number * ranks_, ranks_);
  }

  /// The state's number, and whether it is new.
  std::pair<Number, bool> add(std::span<const std::uint32_t> state) {
    if (2 * (size_ + 1) > table_.size()) grow();
    std::size_t slot = home(state);
    for (; table_[slot] != none; slot = (slot + 1) & (table_.size() - 1)) {
      const auto known = (*this)[table_[slot]];
      if (std::equal(state.begin(), state.end(), known.begin())) return {table_[slot], false};
    }
    table_[slot] = static_cast<Number>(size_++);
    words_.insert(words_.end(), state.begin(), state.end());
    return {table_[slot], true};
  }

 private:
  std::size_t home(std::span<const std::uint32_t> state) const {
    std::uint64_t hash = 0;
    for (const std::uint32_t word : state) hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
    return static_cast<std::size_t>(hash >> 20U) & (table_.size() - 1);
  }
  void grow() {
    table_.assign(2 * table_.size(), none);
    for (std::size_t i = 0; i < size_; ++i) {
      std::size_t slot = home((*this)[static_cast<Number>(i)]);
      while (table_[slot] != none) slot = (slot + 1) & (table_.size() - 1);
      table_[slot] = static_cast<Number>(i);
    }
  }

  std::size_t ranks_;
  std::size_t size_ = 0;
  std::vector<std::uint32_t> words_;
  std::vector<Number> table_;
};

/// How a state was first reached.
struct Arrival {
  StateSet::Number from = StateSet::none;
  RankId by;
};

WrongState stuck(const PlanModel& model, std::span<const std::uint32_t> state) {
  const WaitGraph graph = model.waits(state);
  WrongState wrong;
  wrong.kind = "stuck";
  wrong.text = "stuck: every rank waits and nothing more can arrive\n" + to_string(graph);
  wrong.cycle = graph.cycle;
  return wrong;
}

/// What is wrong with `event` happening in `state`, if anything.
std::optional<WrongState> wrong_event(const PlanModel& model, std::span<const std::uint32_t> state,
                                      const Event& event) {
  std::string text = model.violation(state, event);
  if (text.empty()) return std::nullopt;
  WrongState wrong;
  wrong.kind = text.substr(0, text.find(':'));
  wrong.text = std::move(text);
  return wrong;
}

class Search {
 public:
  Search(const Plan& plan, Policy& policy, const SearchOptions& options)
      : model_(plan, policy, options.by_law),
        options_(options),
        states_(static_cast<std::size_t>(plan.ranks)) {}

  SearchResult run() {
    add(model_.start(), Arrival(), 1);
    bool all = true;
    for (StateSet::Number at = 0; at < states_.size() && !result_.wrong; ++at) {
      if (static_cast<std::int64_t>(states_.size()) > options_.most_states) {
        all = false;
        break;
      }
      if (options_.progress && at % 256 == 255) {
        options_.progress(static_cast<std::int64_t>(states_.size()));
      }
      expand(at);
    }
    result_.states = static_cast<std::int64_t>(states_.size());
    result_.complete = all && !result_.wrong && model_.visible();
    return std::move(result_);
  }

 private:
  void expand(StateSet::Number at) {
    const auto seen = states_[at];
    state_.assign(seen.begin(), seen.end());
    bool moved = false;
    for (RankId rank(0); rank.value < model_.plan().ranks; rank = rank.next()) {
      const auto event = model_.next(state_, rank);
      if (!event) continue;
      moved = true;
      if (auto wrong = wrong_event(model_, state_, *event)) {
        return finish(*std::move(wrong), at, rank);
      }
      const std::uint32_t before = state_[rank.index()];
      state_[rank.index()] = model_.after(state_, *event);
      add(state_, Arrival{at, rank}, ways_[at]);
      state_[rank.index()] = before;
    }
    if (moved) return;
    if (!model_.finished(state_)) return finish(stuck(model_, state_), at, std::nullopt);
    result_.interleavings += ways_[at];
  }

  /// Every move brings the end one event nearer, so all ways to a state are known when its turn comes.
  void add(std::span<const std::uint32_t> state, Arrival arrival, double ways) {
    const auto [number, is_new] = states_.add(state);
    if (is_new) {
      arrivals_.push_back(arrival);
      ways_.push_back(0);
    }
    ways_[number] += ways;
  }

  void finish(WrongState wrong, StateSet::Number at, std::optional<RankId> by) {
    if (by) wrong.moves.push_back(*by);
    for (; arrivals_[at].from != StateSet::none; at = arrivals_[at].from) {
      wrong.moves.push_back(arrivals_[at].by);
    }
    std::reverse(wrong.moves.begin(), wrong.moves.end());
    result_.wrong = std::move(wrong);
  }

  PlanModel model_;
  const SearchOptions& options_;
  StateSet states_;
  std::vector<Arrival> arrivals_;  // by state
  std::vector<double> ways_;       // by state
  PlanModel::State state_;
  SearchResult result_;
};

}  // namespace

SearchResult search_states(const Plan& plan, Policy& policy, const SearchOptions& options) {
  return Search(plan, policy, options).run();
}

Program model_program(std::shared_ptr<const Plan> plan, std::shared_ptr<Policy> policy,
                      bool by_law) {
  return [plan = std::move(plan), policy = std::move(policy),
          by_law](const DeterministicContext::Pick& pick) {
    PlanModel model(*plan, *policy, by_law);
    PlanModel::State state = model.start();
    std::vector<Runnable> ranks;
    std::vector<Event> events;
    for (;;) {
      ranks.clear();
      events.clear();
      for (RankId rank(0); rank.value < plan->ranks; rank = rank.next()) {
        const auto event = model.next(state, rank);
        if (!event) continue;
        const auto lane = static_cast<DeterministicContext::Lane>(rank.value) + 1;
        ranks.push_back(Runnable{lane, lane});
        events.push_back(*event);
      }
      std::optional<WrongState> wrong;
      if (ranks.empty()) {
        if (model.finished(state)) return Outcome();
        wrong = stuck(model, state);
      } else {
        const Event& event = events[pick(ranks)];
        wrong = wrong_event(model, state, event);
        if (!wrong) state[event.rank.index()] = model.after(state, event);
      }
      if (wrong) {
        Outcome outcome;
        outcome.kind = std::move(wrong->kind);
        outcome.text = std::move(wrong->text);
        return outcome;
      }
    }
  };
}

std::vector<Deviation> deviations_to(const WrongState& wrong, const Program& model) {
  class ByMoves final : public Strategy {
   public:
    explicit ByMoves(const std::vector<RankId>& moves) : moves_(moves) {}
    void begin(std::int64_t) override { next_ = 0; }
    std::size_t pick(std::span<const Runnable> runnable, std::uint32_t) override {
      if (next_ == moves_.size()) return 0;
      const auto lane = static_cast<DeterministicContext::Lane>(moves_[next_++].value) + 1;
      const auto place = std::find_if(runnable.begin(), runnable.end(),
                                      [lane](const Runnable& each) { return each.lane == lane; });
      return static_cast<std::size_t>(place - runnable.begin());
    }

   private:
    const std::vector<RankId>& moves_;
    std::size_t next_ = 0;
  };
  ByMoves strategy(wrong.moves);
  strategy.begin(0);
  Trace trace;
  run_once(model, strategy, trace);
  return trace.deviations;
}

}  // namespace sluice::replay
