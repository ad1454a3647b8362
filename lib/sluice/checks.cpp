#include <sluice/checks.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sluice/config_finding.hpp>
#include <sluice/law.hpp>
#include <sluice/schedule_check.hpp>

namespace sluice {
namespace {

// A stage needs a thread of control and a model part; a million of them is a typing mistake.
constexpr int most_stages = 1 << 20;
constexpr int most_drain_depth = 1'000'000'000;
// (stage, microbatch) pairs: with every action's times a pair takes about 90 bytes, without 1.
constexpr std::int64_t most_pairs_with_actions = std::int64_t{1} << 25;
constexpr std::int64_t most_pairs = std::int64_t{1} << 30;

/// Collects errors about the value of one key after the other.
class Errors {
 public:
  void add(std::string_view rule, std::string_view key, std::string found, std::string expected,
           std::string_view change) {
    std::string message = fmt::format("{} = {}: expected {}; {}", key, found, expected, change);
    findings_.push_back(
        config_error(rule, key, std::move(expected), std::move(found), std::move(message)));
  }

  bool none() const { return findings_.empty(); }
  std::vector<Finding> take() { return std::move(findings_); }

 private:
  std::vector<Finding> findings_;
};

std::string_view name_of(const PlanConfig& config) {
  return to_string(config.custom ? ScheduleName::custom : config.schedule);
}

void check_shape(const PlanConfig& config, Errors& errors) {
  if (config.stages < 1 || config.stages > most_stages) {
    errors.add("shape", "stages", std::to_string(config.stages),
               fmt::format("1 to {}", most_stages), "give the total number of pipeline stages");
  }
  if (config.microbatches < 1) {
    errors.add(
        "shape", "microbatches", std::to_string(config.microbatches), "1 or more",
        fmt::format("there is no default; well above stages = {} is a good choice", config.stages));
  }
  if (config.schedule == ScheduleName::custom && !config.custom) {
    errors.add("schedule", "schedule", "custom", "the name of a schedule, or a list of one's own",
               "name one; for an order of your own give its list and leave the name");
  }
  if (!errors.none()) return;
  const std::int64_t pairs = std::int64_t{config.stages} * config.microbatches;
  const bool with_actions = config.detail == Detail::actions;
  const std::int64_t limit = with_actions ? most_pairs_with_actions : most_pairs;
  if (pairs > limit) {
    errors.add("shape", "microbatches", std::to_string(config.microbatches),
               fmt::format("at most {} with stages = {}", limit / config.stages, config.stages),
               with_actions ? "lower it, or ask for the metrics alone" : "lower it");
  }
}

void check_depth(const PlanConfig& config, Errors& errors) {
  const bool own = config.schedule != ScheduleName::drain || config.custom;
  if (config.credits && config.drain_depth) {
    errors.add("drain-depth", "credits", fmt::format("[{}]", fmt::join(*config.credits, ", ")),
               "either credits or drain_depth",
               fmt::format("remove drain_depth = {}, or remove credits", *config.drain_depth));
  }
  if (config.credits && own) {
    errors.add("drain-depth", "credits", fmt::format("[{}]", fmt::join(*config.credits, ", ")),
               fmt::format("no credits with schedule = {}", name_of(config)),
               "remove credits, or set schedule = drain");
  }
  if (config.credits && config.credits->size() != static_cast<std::size_t>(config.stages)) {
    errors.add("drain-depth", "credits", fmt::format("[{}]", fmt::join(*config.credits, ", ")),
               fmt::format("one for each of the {} stages", config.stages),
               fmt::format("give {} numbers instead of {}", config.stages, config.credits->size()));
  } else if (config.credits) {
    for (std::size_t s = 0; s < config.credits->size(); ++s) {
      const int credit = (*config.credits)[s];
      if (credit >= 1) continue;
      errors.add("drain-depth", "credits", std::to_string(credit),
                 fmt::format("1 or more for stage {}", s),
                 "a stage that may hold nothing can never run");
    }
  }
  if (!config.drain_depth) return;
  const int depth = *config.drain_depth;
  if (depth < 0 || depth > most_drain_depth) {
    errors.add("drain-depth", "drain_depth", std::to_string(depth),
               fmt::format("0 to {}", most_drain_depth),
               fmt::format("{} gives 1F1B", config.stages - 1));
  }
}

void check_chunks(const PlanConfig& config, Errors& errors) {
  const int chunks = config.chunks.value_or(default_chunks(config.schedule));
  const std::string expected =
      shape_error(config.schedule, config.stages, config.microbatches, chunks);
  if (expected.empty()) return;
  errors.add("schedule", "schedule",
             fmt::format("{} with stages = {}, microbatches = {}, chunks = {}",
                         to_string(config.schedule), config.stages, config.microbatches, chunks),
             expected, "change that, or choose another schedule");
}

/// Adds an error for each bad element of a list of costs; returns the largest good one.
Time check_list(std::string_view key, const std::vector<Time>& list, std::size_t length,
                std::string_view each, Errors& errors) {
  Time largest;
  if (list.size() > 1 && list.size() != length) {
    errors.add("costs", key, fmt::format("a list of {}", list.size()),
               fmt::format("one number, or one for each of the {} {}", length, each),
               "shorten or lengthen the list");
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] < Time()) {
      errors.add("costs", key, fmt::format("{}", list[i].units()),
                 fmt::format("0 or more at position {}", i), "a time cannot be negative");
    }
    largest = std::max(largest, list[i]);
  }
  return largest;
}

void check_costs(const PlanConfig& config, Errors& errors) {
  const Costs& costs = config.costs;
  const auto stages = static_cast<std::size_t>(config.stages);
  const Time one = Time::from_units(1);
  const Time work = std::max({one, check_list("forward", costs.forward, stages, "stages", errors),
                              check_list("backward", costs.backward, stages, "stages", errors)});
  const Time split =
      std::max(check_list("input_grad", costs.input_gradient, stages, "stages", errors),
               check_list("weight_grad", costs.weight_gradient, stages, "stages", errors));
  const Time link = check_list("link", costs.link, stages - 1, "edges", errors);
  if (costs.overhead < Time()) {
    errors.add("costs", "overhead", fmt::format("{}", costs.overhead.units()), "0 or more",
               "a time cannot be negative");
  }
  std::int64_t largest_size = 1;
  if (!costs.sizes.empty() && costs.sizes.size() != static_cast<std::size_t>(config.microbatches)) {
    errors.add("costs", "sizes", fmt::format("a list of {}", costs.sizes.size()),
               fmt::format("one for each of the {} microbatches", config.microbatches),
               "shorten or lengthen the list");
  }
  for (std::size_t mb = 0; mb < costs.sizes.size(); ++mb) {
    largest_size = std::max(largest_size, costs.sizes[mb]);
    if (costs.sizes[mb] >= 1) continue;
    errors.add("costs", "sizes", std::to_string(costs.sizes[mb]),
               fmt::format("1 or more for microbatch {}", mb), "leave an empty microbatch out");
  }
  // An upper bound of the makespan: everything one after the other.
  const double longest =
      4.0 * config.stages * config.microbatches *
      (static_cast<double>(largest_size) * static_cast<double>(std::max(work, split).millionths) +
       static_cast<double>(link.millionths) + static_cast<double>(costs.overhead.millionths));
  if (longest >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) {
    errors.add("costs", "costs", fmt::format("up to {:g} in one step", longest / 1e6),
               fmt::format("less than {:g}", 9e12), "give the costs in a larger unit");
  }
}

/// Adds an error for each bad element of a list of bytes; returns the largest good one.
std::int64_t check_bytes(std::string_view key, const std::vector<std::int64_t>& list,
                         std::size_t stages, Errors& errors) {
  std::int64_t largest = 0;
  if (list.size() > 1 && list.size() != stages) {
    errors.add("memory", key, fmt::format("a list of {}", list.size()),
               fmt::format("one number, or one for each of the {} stages", stages),
               "shorten or lengthen the list");
  }
  for (std::size_t s = 0; s < list.size(); ++s) {
    largest = std::max(largest, list[s]);
    if (list[s] >= 0) continue;
    errors.add("memory", key, std::to_string(list[s]), fmt::format("0 or more at position {}", s),
               "a size cannot be negative");
  }
  return largest;
}

void check_memory_model(const PlanConfig& config, Errors& errors) {
  const Memory& memory = config.memory;
  const auto stages = static_cast<std::size_t>(config.stages);
  const std::int64_t held = check_bytes("per_microbatch", memory.per_microbatch, stages, errors);
  const std::int64_t fixed = check_bytes("fixed", memory.fixed, stages, errors);
  if (memory.cap && *memory.cap < 0) {
    errors.add("memory", "cap", std::to_string(*memory.cap), "0 or more",
               "leave it out when there is no limit");
  }
  const double all = config.stages *
                     (static_cast<double>(held) * config.microbatches + static_cast<double>(fixed));
  if (all >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) {
    errors.add("memory", "per_microbatch", fmt::format("{:g} bytes for everything", all),
               "less than 9e18", "give the sizes in bytes");
  }
}

std::int64_t of_stage(const std::vector<std::int64_t>& list, std::size_t stage) {
  return list.empty() ? 0 : list.size() == 1 ? list.front() : list[stage];
}

}  // namespace

std::vector<Finding> check_config(const PlanConfig& config) {
  Errors errors;
  check_shape(config, errors);
  // The rest is about lists as long as the shape says.
  if (!errors.none()) return errors.take();
  check_depth(config, errors);
  if (!config.custom) check_chunks(config, errors);
  check_costs(config, errors);
  check_memory_model(config, errors);
  if (config.order == OrderMode::adaptive && (config.custom || is_listed(config.schedule))) {
    errors.add("schedule", "order", "adaptive",
               fmt::format("fixed with schedule = {}", name_of(config)),
               "only the law decides at run time; set order = fixed, or schedule = drain");
  }
  if (config.slots && *config.slots < 0) {
    errors.add("slots", "slots", std::to_string(*config.slots), "0 or more",
               "leave it out for edges that never block");
  }
  return errors.take();
}

std::optional<Finding> check_own_depth(const PlanConfig& config, int own) {
  if (!config.drain_depth) return std::nullopt;
  const int depth = *config.drain_depth;
  // The value of the law that means the same order is no contradiction.
  const bool same = depth == own ||
                    (config.schedule == ScheduleName::one_f_one_b && depth == config.stages - 1) ||
                    (config.schedule == ScheduleName::gpipe &&
                     depth >= std::int64_t{config.microbatches} + config.stages - 2);
  if (same) return std::nullopt;
  Errors errors;
  errors.add(
      "drain-depth", "drain_depth", std::to_string(depth),
      fmt::format("{}, which schedule = {} has by itself with stages = {}, microbatches = {}", own,
                  name_of(config), config.stages, config.microbatches),
      "remove drain_depth, or set schedule = drain");
  return errors.take().front();
}

std::optional<int> deepest_in_memory(const PlanConfig& config) {
  const int deepest = config.microbatches + config.stages - 2;
  if (!config.memory.cap) return deepest;
  // c_s grows with W on every stage, so the room of each bounds W by itself.
  const auto fits = [&config](int drain_depth) {
    const auto credits = law::credits(config.stages, drain_depth);
    for (std::size_t s = 0; s < credits.size(); ++s) {
      const std::int64_t held = std::min(config.microbatches, credits[s]);
      const std::int64_t bytes =
          of_stage(config.memory.fixed, s) + held * of_stage(config.memory.per_microbatch, s);
      if (bytes > *config.memory.cap) return false;
    }
    return true;
  };
  if (!fits(0)) return std::nullopt;
  int good = 0;
  int bad = deepest + 1;
  while (bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

std::optional<Finding> check_memory(const PlanConfig& config, const Plan& plan) {
  if (!config.memory.cap) return std::nullopt;
  const auto& peaks = plan.peak_bytes;
  const auto largest = std::max_element(peaks.begin(), peaks.end());
  if (*largest <= *config.memory.cap) return std::nullopt;
  const RankId rank(largest - peaks.begin());
  const auto stage = std::find(plan.rank_of.begin(), plan.rank_of.end(), rank);
  const StageId first(stage - plan.rank_of.begin());
  const auto depth = deepest_in_memory(config);
  const std::string change =
      plan.schedule != ScheduleName::drain || config.credits
          ? "choose a schedule that holds less, or smaller microbatches"
      : depth
          ? fmt::format("lower drain_depth = {} to {}", plan.drain_depth, *depth)
          : std::string("not even drain_depth = 0 fits: use smaller microbatches or more stages");
  Finding result =
      config_error("memory", "cap", fmt::format("at most {} bytes", *config.memory.cap),
                   std::to_string(*largest),
                   fmt::format("cap = {}: stage {} needs {} bytes at its peak; {}",
                               *config.memory.cap, first.value, *largest, change));
  result.stage = first;
  return result;
}

std::optional<Finding> check_custom(const PlanConfig& config) {
  const Schedule& schedule = *config.custom;
  Errors errors;
  if (schedule.rank_of.size() != static_cast<std::size_t>(config.stages)) {
    errors.add("schedule", "stages", std::to_string(config.stages),
               fmt::format("{}, as many as the schedule has", schedule.rank_of.size()),
               "set stages to that, or give another schedule");
    return errors.take().front();
  }
  const auto error = check_schedule(schedule, config.microbatches);
  if (!error) return std::nullopt;
  errors.add("schedule", "schedule",
             fmt::format("{} as action {} of rank {}", error->found, error->position + 1,
                         error->rank.value),
             error->expected, "mend the list");
  return errors.take().front();
}

Finding check_stuck(const Plan& plan, std::string_view why) {
  const int slots = plan.slots.value_or(0);
  const int safe = plan.slots_safe.value_or(slots + 1);
  return config_error(
      "slots", "slots", fmt::format("{} or more", safe), std::to_string(slots),
      fmt::format("slots = {} is too few for this order, expected {} or more: {}; raise "
                  "slots, or leave it out for edges that never block",
                  slots, safe, why));
}

}  // namespace sluice
