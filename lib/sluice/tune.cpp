#include <sluice/tune.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <sluice/checks.hpp>
#include <sluice/law.hpp>
#include <sluice/tune_space.hpp>

namespace sluice {
namespace {

// About two seconds on one core.
constexpr std::int64_t most_actions = 20'000'000;

std::vector<int> halves_and_doubles(int microbatches) {
  std::vector<int> choices;
  for (const int divisor : {4, 2}) {
    if (microbatches % divisor == 0) choices.push_back(microbatches / divisor);
  }
  for (const int factor : {1, 2, 4}) choices.push_back(microbatches * factor);
  return choices;
}

class Search {
 public:
  Search(const TuneRequest& request, const std::function<void(double)>& progress)
      : request_(request), progress_(progress), space_(request) {}

  Tuning run() {
    const auto& nodes = space_.nodes();
    tuning_.lower_bound = space_.lower_bound();
    tuning_.complete = space_.exhaustive();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      // The leaders come first whatever they promise, so that every kind has been tried.
      if (i >= space_.leaders()) {
        if (best_ && nodes[i].bound >= best_->makespan) break;  // as for all that follow
        if (actions_ > most_actions) {
          tuning_.complete = false;
          break;
        }
      }
      try_node(nodes[i], i < space_.leaders());
      if (progress_) {
        const double budget = static_cast<double>(actions_) / static_cast<double>(most_actions);
        progress_(std::min(
            0.99, std::max(budget, static_cast<double>(i) / static_cast<double>(nodes.size()))));
      }
    }
    for (auto& [name, tuned] : by_schedule_) tuning_.best.push_back(std::move(tuned));
    std::sort(tuning_.best.begin(), tuning_.best.end(), [](const Tuned& a, const Tuned& b) {
      return std::tie(a.makespan, a.most_bytes, a.config.schedule) <
             std::tie(b.makespan, b.most_bytes, b.config.schedule);
    });
    if (progress_) progress_(1);
    return std::move(tuning_);
  }

 private:
  static bool better(const Tuned& a, const Tuned& b) {
    return std::tie(a.makespan, a.most_bytes) < std::tie(b.makespan, b.most_bytes);
  }

  void try_node(const detail::Node& node, bool leader) {
    Tuned tuned;
    tuned.partition = node.partition;
    PlanConfig& config = tuned.config;
    config.stages = static_cast<int>(node.partition.size());
    config.microbatches = node.microbatches;
    config.costs = space_.costs_of(node);
    config.memory = space_.memory_of(node);
    config.slots = request_.slots;
    const bool whole = leader || !best_ || node.whole_bound < best_->makespan;
    if (node.chunks == 1) {
      if (whole) try_law(tuned);
      try_listed(tuned, ScheduleName::zb_h1);
      try_listed(tuned, ScheduleName::zb_h2);
      return;
    }
    config.chunks = node.chunks;
    if (node.placement == detail::Placement::v) {
      try_listed(tuned, ScheduleName::zb_v);
      try_listed(tuned, ScheduleName::dualpipe_v);
      return;
    }
    if (whole) {
      try_listed(tuned, ScheduleName::interleaved);
      try_listed(tuned, ScheduleName::looped_bfs);
    }
    try_listed(tuned, ScheduleName::zb_h1);
  }

  /// All that is a vector of credits, or the static order.
  void try_law(const Tuned& base) {
    const int stages = base.config.stages;
    const int deepest = base.config.microbatches + stages - 2;
    Tuned tuned = base;
    for (const ScheduleName name : {ScheduleName::one_f_one_b, ScheduleName::gpipe}) {
      tuned.config.schedule = name;
      const int depth = name == ScheduleName::gpipe ? deepest : stages - 1;
      try_timeline(tuned, [&](const SimulationOptions& options) {
        return simulate_static(stages, tuned.config.microbatches, depth, tuned.config.costs,
                               options);
      });
    }
    tuned.config.schedule = ScheduleName::drain;
    // With slots the law is no fixed order any more.
    if (request_.slots) tuned.config.order = OrderMode::adaptive;
    for (int depth = 0; depth <= deepest; depth += std::max(1, depth / 16)) {
      tuned.config.drain_depth = depth;
      try_credits(tuned, law::credits(stages, depth));
    }
    tuned.config.drain_depth.reset();
    std::vector<int> eager;
    eager.reserve(static_cast<std::size_t>(stages));
    for (int s = 0; s < stages; ++s) eager.push_back(2 * (stages - s) - 1);
    tuned.config.credits = eager;
    try_credits(tuned, eager);
    if (auto most = most_that_fits(tuned.config)) {
      tuned.config.credits = most;
      try_credits(tuned, *most);
    }
  }

  /// As many on every stage as the memory allows; nothing without a cap.
  static std::optional<std::vector<int>> most_that_fits(const PlanConfig& config) {
    const Memory& memory = config.memory;
    if (!memory.cap || memory.per_microbatch.empty()) return std::nullopt;
    std::vector<int> credits;
    for (std::size_t s = 0; s < memory.per_microbatch.size(); ++s) {
      const std::int64_t each = std::max<std::int64_t>(1, memory.per_microbatch[s]);
      const std::int64_t fit = (*memory.cap - memory.fixed[s]) / each;
      credits.push_back(static_cast<int>(std::clamp<std::int64_t>(fit, 1, config.microbatches)));
    }
    return credits;
  }

  void try_credits(const Tuned& tuned, const std::vector<int>& credits) {
    try_timeline(tuned, [&](const SimulationOptions& options) {
      return simulate_law(tuned.config.stages, tuned.config.microbatches, credits,
                          tuned.config.costs, options);
    });
  }

  void try_listed(const Tuned& base, ScheduleName name) {
    Tuned tuned = base;
    tuned.config.schedule = name;
    const int chunks = tuned.config.chunks.value_or(1);
    const int microbatches = tuned.config.microbatches;
    if (!shape_error(name, tuned.config.stages, microbatches, chunks).empty()) return;
    const auto key = std::tuple(name, microbatches, chunks);
    auto found = listed_.find(key);
    if (found == listed_.end()) {
      found = listed_.emplace(key, listed_schedule(name, tuned.config.stages, microbatches, chunks))
                  .first;
    }
    const Schedule& schedule = found->second;
    try_timeline(
        tuned,
        [&](const SimulationOptions& options) {
          return simulate_order(schedule, microbatches, tuned.config.costs, options);
        },
        &schedule);
  }

  /// The bytes of the rank that needs most.
  static std::int64_t most_bytes(const PlanConfig& config, const Timeline& timeline,
                                 const Schedule* schedule) {
    const Memory& memory = config.memory;
    if (memory.per_microbatch.empty()) return 0;
    std::vector<std::int64_t> bytes;
    if (schedule != nullptr) {
      bytes = peak_of_ranks(schedule->order, memory.per_microbatch);
      for (std::size_t s = 0; s < memory.fixed.size(); ++s) {
        bytes[schedule->rank_of[s].index()] += memory.fixed[s];
      }
    } else {
      for (std::size_t s = 0; s < memory.fixed.size(); ++s) {
        bytes.push_back(memory.fixed[s] + timeline.peak_held[s] * memory.per_microbatch[s]);
      }
    }
    return *std::max_element(bytes.begin(), bytes.end());
  }

  template <class Simulate>
  void try_timeline(const Tuned& tried, const Simulate& simulate,
                    const Schedule* schedule = nullptr) {
    SimulationOptions options;
    options.detail = Detail::metrics;
    options.slots = request_.slots;
    Tuned tuned = tried;
    ++tuning_.tried;
    actions_ += 2 * std::int64_t{tuned.config.stages} * tuned.config.microbatches;
    try {
      const Timeline timeline = simulate(options);
      tuned.makespan = timeline.makespan;
      tuned.most_bytes = most_bytes(tuned.config, timeline, schedule);
    } catch (const StuckError&) {
      return;  // for want of slots
    }
    if (tuned.config.memory.cap && tuned.most_bytes > *tuned.config.memory.cap) return;
    const auto [place, is_new] = by_schedule_.try_emplace(tuned.config.schedule, tuned);
    if (!is_new && better(tuned, place->second)) place->second = tuned;
    if (!best_ || better(tuned, *best_)) best_ = tuned;
  }

  const TuneRequest& request_;
  const std::function<void(double)>& progress_;
  detail::TuneSpace space_;
  std::map<std::tuple<ScheduleName, int, int>, Schedule> listed_;  // by name, M, chunks
  std::map<ScheduleName, Tuned> by_schedule_;
  std::optional<Tuned> best_;
  std::int64_t actions_ = 0;
  Tuning tuning_;
};

/// What check_config says about the request, read as a pipeline with a stage for each layer.
void check_request(const TuneRequest& request) {
  PlanConfig config;
  config.stages = request.layers;
  config.microbatches = request.microbatches;
  config.costs = request.costs;
  config.costs.link.clear();
  config.memory = request.memory;
  config.slots = request.slots;
  config.detail = Detail::metrics;
  std::vector<Finding> errors = check_config(config);
  const auto add = [&errors](const char* key, std::int64_t found, std::string expected) {
    Finding finding;
    finding.rule = "tune";
    finding.key = key;
    finding.found = std::to_string(found);
    finding.message = fmt::format("{} = {}: expected {}", key, found, expected);
    finding.expected = std::move(expected);
    errors.push_back(std::move(finding));
  };
  if (request.ranks < 1 || request.ranks > request.layers) {
    add("stages", request.ranks,
        fmt::format("1 to {}, the number of layers: give fewer stages, or the costs of more layers",
                    request.layers));
  } else if (request.costs.link.size() > 1 &&
             request.costs.link.size() != static_cast<std::size_t>(request.ranks - 1)) {
    add("link", static_cast<std::int64_t>(request.costs.link.size()),
        fmt::format("one number, or one for each of the {} edges", request.ranks - 1));
  }
  const int largest = request.choices.empty()
                          ? request.microbatches
                          : *std::max_element(request.choices.begin(), request.choices.end());
  constexpr std::int64_t most = 4'000'000;
  if (std::int64_t{request.layers} * largest > most) {
    add("microbatches", largest,
        fmt::format("at most {} with {} layers", most / request.layers, request.layers));
  }
  if (!errors.empty()) throw ConfigError(std::move(errors));
}

}  // namespace

Tuning tune(const TuneRequest& request, const std::function<void(double)>& progress) {
  check_request(request);
  TuneRequest whole = request;
  if (!whole.costs.sizes.empty()) {
    whole.choices = {whole.microbatches};
  } else if (whole.choices.empty()) {
    whole.choices = halves_and_doubles(whole.microbatches);
  }
  return Search(whole, progress).run();
}

}  // namespace sluice
