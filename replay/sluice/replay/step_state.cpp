#include <sluice/replay/step_state.hpp>

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace sluice::replay {
namespace {

/// The actions of a step, and which of them have their inputs.
class Inputs {
 public:
  Inputs(const Order& order, int stages) : last_(stages - 1) {
    for (const auto& of_rank : order) all_.insert(of_rank.begin(), of_rank.end());
    arrives(Action(StageId(0), Phase::forward, MicrobatchId(0)));
  }

  void started(const Action& action) {
    waiting_.erase(action);
    // Microbatches come in one by one.
    if (action.stage == StageId(0) && action.phase == Phase::forward) {
      arrives(Action(action.stage, action.phase, action.mb.next()));
    }
  }

  void ended(const Action& action) {
    switch (action.phase) {
      case Phase::forward:
        if (action.stage == last_) {
          backward_arrives(last_, action.mb);
        } else {
          arrives(Action(action.stage.next(), Phase::forward, action.mb));
        }
        return;
      case Phase::input_gradient:
        arrives(Action(action.stage, Phase::weight_gradient, action.mb));
        [[fallthrough]];
      case Phase::backward:
        if (action.stage != StageId(0)) backward_arrives(action.stage.previous(), action.mb);
        return;
      case Phase::weight_gradient: return;
    }
  }

  const std::set<Action>& waiting() const { return waiting_; }

 private:
  void backward_arrives(StageId stage, MicrobatchId mb) {
    arrives(Action(stage, Phase::backward, mb));
    arrives(Action(stage, Phase::input_gradient, mb));
  }
  void arrives(const Action& action) {
    if (all_.contains(action)) waiting_.insert(action);
  }

  StageId last_;
  std::set<Action> all_;
  std::set<Action> waiting_;
};

}  // namespace

StepState state_of(const RecordedStep& step, const std::vector<std::size_t>& before,
                   const Order& order, int stages) {
  StepState state;
  state.ready.resize(step.ranks.size());
  for (auto* counts : {&state.held, &state.forwards_waiting, &state.backwards_waiting}) {
    counts->resize(static_cast<std::size_t>(stages));
  }
  Inputs inputs(order, stages);
  std::vector<std::size_t> taken(step.ranks.size(), 0);
  for (const Event& event : merge_events(step.ranks)) {
    if (taken[event.rank.index()] >= before[event.rank.index()]) continue;
    ++taken[event.rank.index()];
    int& held = state.held[event.action.stage.index()];
    if (event.kind == Event::Kind::enter) {
      inputs.started(event.action);
      if (event.action.phase == Phase::forward) ++held;
    } else if (event.kind == Event::Kind::exit) {
      inputs.ended(event.action);
      if (releases(event.action.phase)) --held;
    }
  }

  for (const Action& action : inputs.waiting()) {
    for (std::size_t r = 0; r < order.size(); ++r) {
      if (std::find(order[r].begin(), order[r].end(), action) == order[r].end()) continue;
      state.ready[r].push_back(action);
      break;
    }
    const bool from_outside = action.phase == Phase::forward && action.stage == StageId(0);
    if (from_outside || action.phase == Phase::weight_gradient) continue;
    ++(action.phase == Phase::forward ? state.forwards_waiting
                                      : state.backwards_waiting)[action.stage.index()];
  }
  return state;
}

std::string list_of(const std::vector<Action>& actions) {
  std::string list;
  for (const Action& action : actions) {
    if (!list.empty()) list += ' ';
    list += to_string(action);
  }
  return list.empty() ? "nothing" : list;
}

std::string compare_ready(const std::vector<Action>& recorded, const std::vector<Action>& found) {
  std::string text = list_of(recorded);
  const auto has = [](const std::vector<Action>& actions, const Action& action) {
    return std::find(actions.begin(), actions.end(), action) != actions.end();
  };
  std::string changes;
  for (const Action& action : found) {
    if (!has(recorded, action)) changes += " +" + to_string(action);
  }
  for (const Action& action : recorded) {
    if (!has(found, action)) changes += " -" + to_string(action);
  }
  return changes.empty() ? text : text + "; found" + changes;
}

}  // namespace sluice::replay
