#include <sluice/replay/explorer.hpp>

#include <algorithm>
#include <exception>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include <sluice/replay/mix.hpp>
#include <sluice/step_error.hpp>

namespace sluice::replay {
namespace {

constexpr std::int64_t unfair_steps = 10'000;
constexpr std::int64_t repeat_every = 20;

/// All orders with at most so many deviations, each once: those with one more follow from the options that
/// a run has met behind its last deviation.
class Bounded {
 public:
  explicit Bounded(int most) : most_(static_cast<std::size_t>(most)) { open_.push_back({}); }

  std::optional<std::vector<Deviation>> next() {
    if (open_.empty()) return std::nullopt;
    auto deviations = std::move(open_.back());
    open_.pop_back();
    return deviations;
  }
  void ran(const std::vector<Deviation>& deviations, const Trace& trace) {
    if (deviations.size() == most_) return;
    const std::uint32_t first = deviations.empty() ? 0 : deviations.back().decision + 1;
    for (auto at = static_cast<std::uint32_t>(trace.options.size()); at-- > first;) {
      for (std::uint32_t option = trace.options[at]; --option > 0;) {
        auto further = deviations;
        further.push_back(Deviation{at, option});
        open_.push_back(std::move(further));
      }
    }
  }

 private:
  std::size_t most_;
  std::vector<std::vector<Deviation>> open_;
};

bool same(const Outcome& a, const Outcome& b, const Trace& of_a, const Trace& of_b) {
  return a.kind == b.kind && a.text == b.text && a.order == b.order && of_a.order == of_b.order;
}

Outcome run_deviations(const Program& run, const std::vector<Deviation>& deviations, Trace& trace) {
  ByDeviations strategy(deviations);
  strategy.begin(0);
  return run_once(run, strategy, trace);
}

std::string name_of(std::uint32_t lane) {
  if (lane == DeterministicContext::timer_lane) return "the timer";
  if (lane == DeterministicContext::choice_lane) return "the choice";
  if (lane == DeterministicContext::no_lane) return "a handler of no serial executor";
  return fmt::format("task {}", lane - 1);
}

}  // namespace

Program program_of(std::function<std::function<std::string()>(DeterministicContext&)> build,
                   std::size_t most) {
  return [build = std::move(build), most](const DeterministicContext::Pick& pick) {
    Outcome outcome;
    DeterministicContext context(pick);
    try {
      const auto check = build(context);
      context.run(most);
      const auto alive = context.unfinished();
      if (!context.idle()) {
        outcome.kind = "livelock";
        outcome.text = fmt::format("livelock: {} handlers have run, and there is no end", most);
      } else if (!alive.empty()) {
        outcome.kind = "stuck";
        outcome.text = fmt::format("stuck: nothing can run; not ended: {}", fmt::join(alive, ", "));
      } else if (check) {
        outcome.text = check();
        if (!outcome.text.empty()) outcome.kind = "wrong";
      }
    } catch (...) {
      outcome.kind = "failed";
      outcome.text = text_of(std::current_exception());
    }
    return outcome;
  };
}

void Trace::clear() {
  options.clear();
  deviations.clear();
  lanes.clear();
  oldest.clear();
  order = 0;
  steps = tasks = 0;
  lanes_seen.clear();
}

Outcome run_once(const Program& run, Strategy& strategy, Trace& trace) {
  trace.clear();
  const DeterministicContext::Pick pick = [&](std::span<const Runnable> runnable) -> std::size_t {
    const auto decision = static_cast<std::uint32_t>(trace.options.size());
    std::size_t chosen = trace.steps < unfair_steps ? strategy.pick(runnable, decision) : 0;
    chosen = std::min(chosen, runnable.size() - 1);
    ++trace.steps;
    const std::uint32_t lane = runnable[chosen].lane;
    if (lane == DeterministicContext::no_lane) {
      ++trace.tasks;
    } else if (lane < DeterministicContext::choice_lane) {
      if (lane >= trace.lanes_seen.size()) trace.lanes_seen.resize(lane + 1);
      if (!trace.lanes_seen[lane]) ++trace.tasks;
      trace.lanes_seen[lane] = true;
    }
    trace.order =
        mix(trace.order, lane == DeterministicContext::no_lane
                             ? runnable[chosen].number << 32U
                             : lane + (lane == DeterministicContext::choice_lane ? chosen : 0));
    if (runnable.size() > 1) {
      trace.options.push_back(static_cast<std::uint32_t>(runnable.size()));
      trace.lanes.push_back(lane);
      trace.oldest.push_back(runnable.front().lane);
      if (chosen > 0) {
        trace.deviations.push_back(Deviation{decision, static_cast<std::uint32_t>(chosen)});
      }
    }
    return chosen;
  };
  return run(pick);
}

Exploration explore(const Program& run, const ExploreOptions& options) {
  Exploration result;
  std::unordered_set<std::uint64_t> orders;
  Bounded bounded(options.depth);
  RandomWalk walk(options.seed);
  Pct pct(options.seed, options.depth, 1);
  Trace trace;
  if (options.strategy == StrategyName::pct) {
    // How long a run is is learnt from the default one, and from every longer one after it.
    run_deviations(run, {}, trace);
    pct.expect(trace.steps);
  }
  while (result.runs < options.runs &&
         static_cast<int>(result.failures.size()) < options.most_failures) {
    std::vector<Deviation> deviations;
    std::optional<Walk> drawn;
    Outcome outcome;
    if (options.strategy == StrategyName::bounded) {
      auto next = bounded.next();
      if (!next) break;
      deviations = *std::move(next);
      outcome = run_deviations(run, deviations, trace);
      bounded.ran(deviations, trace);
    } else {
      Strategy& strategy =
          options.strategy == StrategyName::pct ? static_cast<Strategy&>(pct) : walk;
      strategy.begin(result.runs);
      drawn = Walk{options.strategy, options.seed, result.runs, options.depth, pct.expected()};
      outcome = run_once(run, strategy, trace);
      pct.expect(trace.steps);
    }
    result.tasks = std::max(result.tasks, trace.tasks);
    result.steps = std::max(result.steps, trace.steps);
    orders.insert(outcome.order != 0 ? outcome.order : trace.order);
    if (result.runs % repeat_every == 0) {
      Trace again;
      const Outcome second = run_deviations(run, trace.deviations, again);
      ++result.repeated;
      if (!same(outcome, second, trace, again)) {
        outcome.kind = "not-deterministic";
        outcome.text = fmt::format(
            "not deterministic: the same picks gave two runs, one of {} steps ({}), one of {} "
            "({}); "
            "find what differs: a clock, an address, a random source, threads",
            trace.steps, outcome.text.empty() ? "as it should be" : outcome.text, again.steps,
            second.text.empty() ? "as it should be" : second.text);
      }
    }
    if (!outcome.kind.empty()) {
      result.failures.push_back(
          Failure{outcome.kind, outcome.text, result.runs, trace.deviations, drawn});
    }
    ++result.runs;
    if (options.progress) options.progress(result.runs);
  }
  result.distinct = static_cast<std::int64_t>(orders.size());
  result.complete = options.strategy == StrategyName::bounded && result.failures.empty() &&
                    result.runs < options.runs;
  return result;
}

std::optional<Minimised> minimise(const Program& run, const Failure& failure) {
  Minimised result;
  result.kind = failure.kind;
  Trace trace;
  const auto fails = [&](const std::vector<Deviation>& deviations) {
    ++result.runs;
    const Outcome outcome = run_deviations(run, deviations, trace);
    if (outcome.kind == failure.kind) result.text = outcome.text;
    return outcome.kind == failure.kind;
  };
  for (int i = 0; i < 3; ++i) {
    if (!fails(failure.deviations)) return std::nullopt;
  }
  std::vector<Deviation> least = failure.deviations;

  // The tail first: the fewest deviations from the start that fail with the oldest running ever after.
  std::size_t passes = 0;
  for (std::size_t length = least.size(); passes < length;) {
    const std::size_t half = passes + (length - passes) / 2;
    const std::vector head(least.begin(), least.begin() + static_cast<std::ptrdiff_t>(half));
    if (fails(head)) {
      least = head;
      length = half;
    } else {
      passes = half + 1;
    }
  }

  // Then delta debugging: leave out ever smaller pieces, until no single one can go.
  for (std::size_t piece = std::max<std::size_t>(least.size() / 2, 1); !least.empty();) {
    bool shrunk = false;
    for (std::size_t from = 0; from < least.size();) {
      const std::size_t to = std::min(from + piece, least.size());
      auto rest = least;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(from),
                 rest.begin() + static_cast<std::ptrdiff_t>(to));
      if (fails(rest)) {
        least = std::move(rest);
        shrunk = true;
      } else {
        from = to;
      }
    }
    if (piece == 1 && !shrunk) break;
    piece = std::max<std::size_t>(piece / 2, 1);
  }

  for (int i = 0; i < 10; ++i) result.reproduced += fails(least) ? 1 : 0;
  if (!least.empty() && least.back().decision < trace.lanes.size()) {
    const std::uint32_t at = least.back().decision;
    result.flips = fmt::format("at decision {} {} ran before {}; the other way round it passes", at,
                               name_of(trace.lanes[at]), name_of(trace.oldest[at]));
  }
  result.deviations = std::move(least);
  return result;
}

}  // namespace sluice::replay
