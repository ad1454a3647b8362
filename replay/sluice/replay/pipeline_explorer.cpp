#include <sluice/replay/pipeline_explorer.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <sluice/replay/state_search.hpp>

namespace sluice::replay {
namespace {

constexpr std::array<std::string_view, 5> names{"exhaustive", "bounded", "pct", "random", "swarm"};

/// Runs in a row of one scenario, where there are many faults; a swarm draws for each run.
constexpr std::int64_t runs_of_a_scenario = 20;
/// Orders in which a smaller scenario has to fail, or is given up.
constexpr std::int64_t tries_to_shrink = 200;

Program program_in(World world, const Scenario& scenario, const std::shared_ptr<Policy>& policy) {
  if (world == World::runtime) return pipeline_program(scenario, policy).program;
  auto plan = std::make_shared<const Plan>(derive_plan(scenario.config));
  return model_program(plan, policy ? policy : policy_for(*plan), policy == nullptr);
}

/// Whether every fault can strike: its action is one of the plan's.
bool applies(const Scenario& scenario) {
  const Plan plan = derive_plan(scenario.config);
  return std::all_of(scenario.faults.begin(), scenario.faults.end(),
                     [&](const Fault& fault) { return can_strike(fault, plan); });
}

/// Besides those of the links.
bool has_costs(const PlanConfig& config) {
  const Costs& costs = config.costs;
  return !costs.forward.empty() || !costs.backward.empty() || !costs.input_gradient.empty() ||
         !costs.weight_gradient.empty() || costs.overhead > Time();
}

/// What a scenario could be without and still fail, the greatest savings first.
std::vector<Scenario> smaller(const Scenario& scenario) {
  std::vector<Scenario> all;
  const auto with = [&all, &scenario](const auto& change) {
    Scenario less = scenario;
    change(less);
    all.push_back(std::move(less));
  };
  for (std::size_t i = 0; i < scenario.faults.size(); ++i) {
    with([i](Scenario& less) {
      less.faults.erase(less.faults.begin() + static_cast<std::ptrdiff_t>(i));
    });
  }
  const PlanConfig& config = scenario.config;
  if (config.custom) return all;  // made for this shape
  for (const int m : {config.microbatches / 2, config.microbatches - 1}) {
    if (m >= 1) with([m](Scenario& less) { less.config.microbatches = m; });
  }
  const int chunks = config.chunks.value_or(default_chunks(config.schedule));
  if (config.stages > chunks) {  // a rank less
    with([chunks](Scenario& less) {
      less.config.stages -= chunks;
      const auto stages = static_cast<std::size_t>(less.config.stages);
      if (less.config.credits) less.config.credits->resize(stages);
      for (auto* list : {&less.config.costs.forward, &less.config.costs.backward,
                         &less.config.costs.input_gradient, &less.config.costs.weight_gradient}) {
        if (list->size() > 1) list->resize(stages);
      }
      auto& link = less.config.costs.link;
      if (link.size() > 1) link.resize(stages - 1);
    });
  }
  if (config.schedule != ScheduleName::drain) {
    with([](Scenario& less) {
      less.config.schedule = ScheduleName::drain;
      less.config.chunks.reset();
    });
  }
  if (config.slots) with([](Scenario& less) { less.config.slots.reset(); });
  if (config.drain_depth && *config.drain_depth > 0) {
    with([](Scenario& less) { --*less.config.drain_depth; });
  }
  for (std::size_t s = 0; config.credits && s < config.credits->size(); ++s) {
    if ((*config.credits)[s] > 1) with([s](Scenario& less) { --(*less.config.credits)[s]; });
  }
  if (scenario.suspends) with([](Scenario& less) { less.suspends = false; });
  if (!config.costs.link.empty()) with([](Scenario& less) { less.config.costs.link.clear(); });
  if (has_costs(config)) {
    with([](Scenario& less) {
      const auto link = less.config.costs.link;
      less.config.costs = Costs();
      less.config.costs.link = link;
    });
  }
  return all;
}

class Hunt {
 public:
  Hunt(World world, std::shared_ptr<Policy> policy, const Scenario& scenario, const Failure& found)
      : world_(world), policy_(std::move(policy)), scenario_(scenario), found_(found) {}

  PipelineFailure run() {
    PipelineFailure result;
    result.kind = found_.kind;
    result.text = found_.text;
    result.original = result.token = token(scenario_, found_.deviations);
    if (found_.walk) {
      result.original.deviations.clear();
      result.original.walk = found_.walk;
    }
    result.met_with = static_cast<std::int64_t>(found_.deviations.size());
    const Program program = program_in(world_, scenario_, policy_);
    auto least = minimise(program, found_);
    if (!least) return result;  // not the same twice: it is told as it was met
    while (auto next = shrink()) {
      scenario_ = std::move(next->first);
      least = std::move(next->second);
    }
    result.text = least->text;
    result.token = token(scenario_, least->deviations);
    result.reproduced = least->reproduced;
    result.flips = least->flips;
    result.others_finish = others();
    return result;
  }

 private:
  Token token(const Scenario& scenario, const std::vector<Deviation>& deviations) const {
    Token token;
    token.world = world_;
    token.scenario = scenario;
    token.deviations = deviations;
    token.own = policy_ != nullptr || scenario.config.custom.has_value();
    return token;
  }

  /// A smaller scenario that fails in the same way, as small as its order can be made.
  std::optional<std::pair<Scenario, Minimised>> shrink() const {
    for (const Scenario& less : smaller(scenario_)) {
      try {
        if (!applies(less)) continue;
        const Program program = program_in(world_, less, policy_);
        ExploreOptions options;
        options.runs = tries_to_shrink;
        // The default order first: most failures that are left after a while need no other.
        for (const StrategyName strategy : {StrategyName::bounded, StrategyName::random}) {
          options.strategy = strategy;
          options.depth = 1;
          const auto failures = explore(program, options).failures;
          if (failures.empty() || failures.front().kind != found_.kind) continue;
          if (auto least = minimise(program, failures.front())) {
            return std::pair(less, *std::move(least));
          }
        }
      } catch (const ConfigError&) {
        continue;  // there is no such plan
      }
    }
    return std::nullopt;
  }

  int others() const {
    ExploreOptions options;
    options.runs = 100;
    options.most_failures = 101;
    const Exploration result = explore(program_in(world_, scenario_, policy_), options);
    return static_cast<int>(result.runs) - static_cast<int>(result.failures.size());
  }

  World world_;
  std::shared_ptr<Policy> policy_;
  Scenario scenario_;
  const Failure& found_;
};

/// What a run is judged by remembers, for each event of a rank, all that the rank has done by then.
void require_memory(const Plan& plan) {
  constexpr double most = 1 << 30;
  double bytes = 0;
  for (const auto& actions : plan.order) {
    const double cells = static_cast<double>(plan.stages) / plan.ranks * plan.microbatches;
    bytes += 2 * static_cast<double>(actions.size()) * (2 * cells + 400);
  }
  if (bytes <= most) return;
  const auto rank = static_cast<std::int64_t>(plan.order.front().size());
  throw std::invalid_argument(fmt::format(
      "-S {} -M {} is too large to explore: every rank's {} events, each with the state of its {} "
      "microbatches twice, are {:.1f} GB for the {} ranks, and one run is {} actions; expected at "
      "most {:.0f} GB. What goes wrong in an order goes wrong in a small shape: take fewer stages "
      "or "
      "microbatches",
      plan.stages, plan.microbatches, 2 * rank, plan.stages / plan.ranks * plan.microbatches,
      bytes / (1 << 30), plan.ranks, rank * plan.ranks, most / (1 << 30)));
}

PipelineExploration search(const Scenario& scenario, const PipelineExploreOptions& options,
                           const std::shared_ptr<Policy>& policy) {
  if (!options.kinds.empty()) {
    throw std::invalid_argument(
        "faults strike the runtime, and exhaustive goes through the states of the plan: take "
        "another strategy, or no faults");
  }
  const auto plan = std::make_shared<const Plan>(derive_plan(scenario.config));
  require_memory(*plan);
  const auto asked = policy ? policy : policy_for(*plan);
  SearchOptions search;
  // A number a rank for each state, and with its place in the table and its arrival some forty bytes.
  search.most_states =
      std::min(options.most_states, (std::int64_t{2} << 30) / (4 * plan->ranks + 40));
  search.by_law = policy == nullptr;
  search.progress = options.progress;
  const SearchResult found = search_states(*plan, *asked, search);
  PipelineExploration result;
  result.runs = 1;
  result.scenarios = 1;
  result.states = result.distinct = found.states;
  result.interleavings = found.interleavings;
  result.complete = found.complete;
  if (found.wrong) {
    Failure failure;
    failure.kind = found.wrong->kind;
    failure.text = found.wrong->text;
    failure.deviations = deviations_to(*found.wrong, model_program(plan, asked, search.by_law));
    result.failures.push_back(Hunt(World::model, policy, scenario, failure).run());
  }
  return result;
}

}  // namespace

std::string_view to_string(Exploring strategy) { return names[static_cast<std::size_t>(strategy)]; }

std::optional<Exploring> parse_exploring(std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Exploring>(found - names.begin());
}

PipelineExploration explore_pipeline(const Scenario& scenario,
                                     const PipelineExploreOptions& options,
                                     const std::shared_ptr<Policy>& policy) {
  if (options.strategy == Exploring::exhaustive) return search(scenario, options, policy);
  const bool swarm = options.strategy == Exploring::swarm;
  const bool many = swarm || !options.kinds.empty();
  const Plan plan = derive_plan(scenario.config);
  require_memory(plan);
  PipelineExploration result;
  for (std::int64_t number = 0; result.runs < options.runs && result.failures.empty(); ++number) {
    // Without faults first; then each kind in turn, at a place drawn anew.
    Scenario each = swarm ? draw_scenario(options.seed, number, options.kinds) : scenario;
    if (!swarm && many && number % static_cast<std::int64_t>(options.kinds.size() + 1) != 0) {
      const Fault::Kind kind =
          options.kinds[static_cast<std::size_t>(number) % (options.kinds.size() + 1) - 1];
      if (!can_strike(kind, plan)) continue;
      each.faults.push_back(draw_fault(kind, plan, options.seed, number));
    }
    if (options.drawn) options.drawn(each);
    const PipelineProgram explored = pipeline_program(each, policy);
    ExploreOptions run;
    run.strategy = options.strategy == Exploring::bounded ? StrategyName::bounded
                   : options.strategy == Exploring::pct   ? StrategyName::pct
                                                          : StrategyName::random;
    run.seed = options.seed + static_cast<std::uint64_t>(number);
    run.depth = options.depth;
    run.runs = options.runs - result.runs;
    if (many) run.runs = std::min(run.runs, swarm ? 1 : runs_of_a_scenario);
    if (options.progress) {
      run.progress = [&, before = result.runs](std::int64_t runs) {
        options.progress(before + runs);
      };
    }
    const Exploration one = explore(explored.program, run);
    ++result.scenarios;
    result.runs += one.runs;
    result.repeated += one.repeated;
    result.tasks = std::max(result.tasks, one.tasks);
    result.steps = std::max(result.steps, one.steps);
    result.distinct += one.distinct;
    result.complete = one.complete && !many;
    for (std::size_t i = 0; i < seen_count; ++i) {
      result.coverage.counts[i] += explored.coverage->counts[i];
    }
    if (!one.failures.empty()) {
      result.failures.push_back(Hunt(World::runtime, policy, each, one.failures.front()).run());
    }
    if (!many) break;
  }
  return result;
}

Outcome replay_token(const Token& token, const std::shared_ptr<Policy>& policy,
                     const WrapDirector& wrap) {
  const Plan plan = derive_plan(token.scenario.config);
  require_memory(plan);
  for (const Fault& fault : token.scenario.faults) {
    if (can_strike(fault, plan)) continue;
    throw std::invalid_argument(
        fmt::format("{}: expected a fault of an action that the plan has, and that it can strike",
                    to_string(fault)));
  }
  const Program program = token.world == World::model
                              ? program_in(World::model, token.scenario, policy)
                              : pipeline_program(token.scenario, policy, wrap).program;
  const auto strategy =
      token.walk ? strategy_of(*token.walk) : std::make_unique<ByDeviations>(token.deviations);
  Trace trace;
  return run_once(program, *strategy, trace);
}

}  // namespace sluice::replay
