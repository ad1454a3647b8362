#include <sluice/symptoms.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sluice/config_finding.hpp>
#include <sluice/recommend.hpp>

namespace sluice {
namespace {

// A tenth is more than clocks and caches make of equal stages; a twentieth of a whole step too.
constexpr double much_of_stage = 0.10;
constexpr double much_of_step = 0.05;

/// To five digits: what was measured is not more exact.
std::string shown(double number) { return fmt::format("{:.5g}", number); }
std::string shown(Time time) { return shown(time.units()); }

std::string shown(const std::vector<Time>& times) {
  const bool same = std::all_of(times.begin(), times.end(),
                                [&times](Time time) { return time == times.front(); });
  if (same) return shown(times.front());
  std::vector<std::string> each;
  each.reserve(times.size());
  for (const Time time : times) each.push_back(shown(time));
  return fmt::format("[{}]", fmt::join(each, ", "));
}

double sum_of(const std::vector<Time>& times) {
  return std::accumulate(times.begin(), times.end(), Time()).units();
}

Time scaled(Time time, double by) { return Time::from_units(time.units() * by); }

std::vector<Time> scaled(std::vector<Time> times, double by) {
  for (Time& time : times) time = scaled(time, by);
  return times;
}

std::vector<Time> sum_of(const std::vector<Time>& a, const std::vector<Time>& b) {
  std::vector<Time> sum;
  sum.reserve(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum.push_back(a[i] + b[i]);
  return sum;
}

/// The mean over the largest.
double balance_of(const std::vector<Time>& times) {
  const double largest = std::max_element(times.begin(), times.end())->units();
  return largest > 0 ? sum_of(times) / (static_cast<double>(times.size()) * largest) : 1;
}

class Comparison {
 public:
  Comparison(const Plan& plan, MeasuredTimes measured)
      : plan_(plan), measured_(std::move(measured)) {}

  Symptoms find() {
    check();
    measure();
    balance();
    compare_costs();
    compare_links();
    compare_step();
    compare_depth();
    return std::move(symptoms_);
  }

 private:
  bool is_split() const {
    return std::any_of(plan_.order.begin(), plan_.order.end(), [](const auto& of_rank) {
      return std::any_of(of_rank.begin(), of_rank.end(), [](const Action& action) {
        return action.phase == Phase::weight_gradient;
      });
    });
  }

  /// Every list as long as there are stages, or empty.
  void check() {
    std::vector<Finding> errors;
    const auto spread = [&errors](const char* key, std::vector<Time>& list, int count) {
      const bool fits = list.size() <= 1 || list.size() == static_cast<std::size_t>(count);
      const bool positive =
          std::all_of(list.begin(), list.end(), [](Time time) { return time >= Time(); });
      if (!fits || !positive) {
        Finding error = config_error(
            "costs", key, fmt::format("one number, or {}, each 0 or more", count), shown(list),
            fmt::format("measured {} = {}: expected one number, or one for each of the {}, each 0 "
                        "or more",
                        key, shown(list), count));
        errors.push_back(std::move(error));
      }
      if (list.size() == 1) list.resize(static_cast<std::size_t>(count), list.front());
    };
    spread("forward", measured_.forward, plan_.stages);
    spread("backward", measured_.backward, plan_.stages);
    spread("input_grad", measured_.input_gradient, plan_.stages);
    spread("weight_grad", measured_.weight_gradient, plan_.stages);
    spread("link", measured_.link, plan_.stages - 1);
    // A rank with several stages lets a value wait for its turn, however fast the link is.
    if (plan_.ranks != plan_.stages) measured_.link.clear();
    const bool both = !measured_.input_gradient.empty() && !measured_.weight_gradient.empty();
    if (both && measured_.backward.empty()) {
      measured_.backward = sum_of(measured_.input_gradient, measured_.weight_gradient);
    }
    if (errors.empty() && measured_.forward.empty() && measured_.backward.empty()) {
      Finding error =
          config_error("costs", "forward", "times of forwards or backwards", "neither",
                       "measured forward: expected the times of forwards, of backwards, or "
                       "of both, found neither");
      errors.push_back(std::move(error));
    }
    if (!errors.empty()) throw ConfigError(std::move(errors));
  }

  std::vector<Time> planned_backward() const {
    return split_ ? sum_of(plan_.costs.input_gradient, plan_.costs.weight_gradient)
                  : plan_.costs.backward;
  }

  /// Unit, shares, and the measured costs; what was not measured is as planned.
  void measure() {
    split_ = is_split();
    const std::vector<Time> backward = planned_backward();
    const auto sums = [](const std::vector<Time>& found, const std::vector<Time>& planned) {
      return found.empty() ? std::pair(0.0, 0.0) : std::pair(sum_of(found), sum_of(planned));
    };
    const auto [found_forward, as_forward] = sums(measured_.forward, plan_.costs.forward);
    const auto [found_backward, as_backward] = sums(measured_.backward, backward);
    const double planned = as_forward + as_backward;
    const double found = found_forward + found_backward;
    symptoms_.unit = planned > 0 && found > 0 ? found / planned : 1;

    const double unit = symptoms_.unit;
    const auto or_planned = [unit](const std::vector<Time>& list, const std::vector<Time>& other) {
      return list.empty() ? scaled(other, unit) : list;
    };
    Costs& costs = symptoms_.costs;
    costs.forward = or_planned(measured_.forward, plan_.costs.forward);
    costs.backward = or_planned(measured_.backward, backward);
    costs.input_gradient = measured_.input_gradient;
    costs.weight_gradient = measured_.weight_gradient;
    if (costs.input_gradient.empty()) {
      // The halves of a measured whole, in the planned proportion.
      for (std::size_t s = 0; s < backward.size(); ++s) {
        const Time first = plan_.costs.input_gradient[s];
        const Time both = first + plan_.costs.weight_gradient[s];
        const double share = both > Time() ? first.units() / both.units() : 0.5;
        costs.input_gradient.push_back(scaled(costs.backward[s], share));
      }
      costs.weight_gradient.clear();
    }
    if (costs.weight_gradient.empty()) {
      for (std::size_t s = 0; s < backward.size(); ++s) {
        costs.weight_gradient.push_back(
            std::max(Time(), costs.backward[s] - costs.input_gradient[s]));
      }
    }
    costs.link = or_planned(measured_.link, plan_.costs.link);
    costs.overhead = scaled(plan_.costs.overhead, unit);
    costs.sizes = plan_.costs.sizes;
    for (std::size_t s = 0; s < backward.size(); ++s) {
      symptoms_.shares.push_back({scaled(plan_.costs.forward[s], unit), costs.forward[s],
                                  scaled(backward[s], unit), costs.backward[s]});
    }
    symptoms_.planned = scaled(plan_.timeline.makespan, unit);
  }

  void balance() {
    std::vector<Time> measured, planned;
    for (const StageShare& share : symptoms_.shares) {
      measured.push_back(share.measured_forward + share.measured_backward);
      planned.push_back(share.planned_forward + share.planned_backward);
    }
    const auto slowest = std::max_element(measured.begin(), measured.end());
    symptoms_.slowest = StageId(slowest - measured.begin());
    symptoms_.balance = balance_of(measured);
    // What the plan has counted on is no difference.
    const bool worse = symptoms_.balance < balance_of(planned) * (1 - much_of_step);
    if (symptoms_.balance >= 1 - much_of_stage || !worse) return;
    const auto stages = static_cast<double>(plan_.stages);
    const double largest = slowest->units();
    const double mean = largest * symptoms_.balance;
    Finding finding = config_warning(
        "balance", "stages", "stages that take equally long", shown(largest),
        fmt::format(
            "stage {} takes {} a microbatch where the mean is {}: the others wait for it, and "
            "stages = {} are worth {:.2f} ({:.1f}% balance); give it fewer layers, or find "
            "the cut with sluice tune",
            symptoms_.slowest.value, shown(largest), shown(mean), plan_.stages,
            stages * symptoms_.balance, 100 * symptoms_.balance));
    finding.stage = symptoms_.slowest;
    symptoms_.findings.push_back(std::move(finding));
  }

  /// The stage that is furthest from what the plan has for it.
  void compare(const char* key, const std::vector<Time>& planned, const std::vector<Time>& found) {
    if (found.empty()) return;
    std::size_t worst = 0;
    double furthest = 0;
    for (std::size_t s = 0; s < planned.size(); ++s) {
      const double expected = planned[s].units() * symptoms_.unit;
      const double away = std::abs(found[s].units() - expected) / std::max(expected, 1e-12);
      if (away > furthest) {
        furthest = away;
        worst = s;
      }
    }
    if (furthest <= much_of_stage) return;
    const double expected = planned[worst].units() * symptoms_.unit;
    const std::string one = std::abs(symptoms_.unit - 1) < 1e-9
                                ? std::string()
                                : fmt::format(" (1 of the plan is {})", shown(symptoms_.unit));
    Finding finding = config_warning(
        "costs", key, shown(expected), shown(found[worst]),
        fmt::format("{} = {}: on stage {} the plan expects {}{}, the run took {}; set {} = {}", key,
                    shown(planned), worst, shown(expected), one, shown(found[worst]), key,
                    shown(found)));
    finding.stage = StageId(static_cast<std::int64_t>(worst));
    symptoms_.findings.push_back(std::move(finding));
  }

  void compare_costs() {
    compare("forward", plan_.costs.forward, measured_.forward);
    const bool halves = split_ && !measured_.input_gradient.empty();
    if (halves) {
      compare("input_grad", plan_.costs.input_gradient, measured_.input_gradient);
      compare("weight_grad", plan_.costs.weight_gradient, measured_.weight_gradient);
    } else {
      compare("backward", planned_backward(), measured_.backward);
    }
  }

  void compare_links() {
    if (measured_.link.empty()) return;
    const double forward = sum_of(symptoms_.costs.forward) / plan_.stages;
    for (std::size_t edge = 0; edge < measured_.link.size(); ++edge) {
      const double expected = plan_.costs.link[edge].units() * symptoms_.unit;
      const double found = measured_.link[edge].units();
      if (std::abs(found - expected) <= much_of_stage * forward) continue;
      Finding finding = config_warning(
          "costs", "link", shown(expected), shown(found),
          fmt::format(
              "link = {}: between stage {} and stage {} the plan expects {}, the run took {}; "
              "set link = {}",
              shown(plan_.costs.link), edge, edge + 1, shown(expected), shown(found),
              shown(measured_.link)));
      finding.stage = StageId(static_cast<std::int64_t>(edge));
      symptoms_.findings.push_back(std::move(finding));
      return;
    }
  }

  /// The step under the measured costs, in the plan's own order, with `overhead` more an action.
  Time step_with(Time overhead) const {
    Costs costs = symptoms_.costs;
    costs.overhead += overhead;
    SimulationOptions options;
    options.detail = Detail::metrics;
    options.slots = plan_.slots;
    if (plan_.order_mode == OrderMode::adaptive) {
      return simulate_law(plan_.stages, plan_.microbatches, plan_.credits, costs, options).makespan;
    }
    return simulate_order({plan_.order, plan_.rank_of, plan_.overlapped}, plan_.microbatches, costs,
                          options)
        .makespan;
  }

  /// The overhead an action with which the step takes `step`, to a millionth of it: false position,
  /// because the step grows with it in straight pieces.
  Time overhead_for(Time step) const {
    const double wanted = step.units();
    double low = 0;
    double below = symptoms_.explained.units() - wanted;
    double high = -below;  // a forward and a backward at least are one after the other
    double above = step_with(Time::from_units(high)).units() - wanted;
    int side = 0;
    for (int i = 0; i < 40 && above > 0; ++i) {
      const double guess = low - below * (high - low) / (above - below);
      const double over = step_with(Time::from_units(guess)).units() - wanted;
      if (std::abs(over) <= 1e-6 * wanted) return Time::from_units(guess);
      if (over < 0) {
        low = guess;
        below = over;
        if (side < 0) above /= 2;  // the other end has stood still twice
        side = -1;
      } else {
        high = guess;
        above = over;
        if (side > 0) below /= 2;
        side = 1;
      }
    }
    return Time::from_units(low);
  }

  void compare_step() {
    symptoms_.explained = step_with({});
    if (!measured_.step || *measured_.step <= Time()) return;
    const double found = measured_.step->units();
    const double explained = symptoms_.explained.units();
    if (found < explained * (1 - much_of_step)) {
      symptoms_.findings.push_back(config_warning(
          "costs", "schedule", shown(explained), shown(found),
          fmt::format("the step took {}, less than the {} that its actions take in this order; the "
                      "run had another schedule, or its times are from elsewhere",
                      shown(found), shown(explained))));
      return;
    }
    if (found <= explained * (1 + much_of_step)) return;
    const Time overhead = overhead_for(*measured_.step);
    symptoms_.costs.overhead += overhead;
    symptoms_.findings.push_back(config_warning(
        "costs", "overhead", shown(scaled(plan_.costs.overhead, symptoms_.unit)),
        shown(symptoms_.costs.overhead),
        fmt::format("the step took {}, of which its actions and links explain {}: the rest is "
                    "between actions, dispatch or ranks that wait for a thread; overhead = {} "
                    "explains it, and fewer, larger microbatches have less of it",
                    shown(found), shown(explained), shown(symptoms_.costs.overhead))));
  }

  /// Whether another W would serve better, now that the costs are known.
  void compare_depth() {
    if (plan_.schedule != ScheduleName::drain || plan_.config.credits) return;
    PlanConfig config = plan_.config;
    config.costs = symptoms_.costs;
    const Recommendation recommended = recommend_drain_depth(config);
    if (recommended.drain_depth == plan_.drain_depth) return;
    const auto price = std::find_if(
        recommended.prices.begin(), recommended.prices.end(),
        [&](const DepthPrice& each) { return each.drain_depth == recommended.drain_depth; });
    const double now = step_with({}).units();
    const double then = price->makespan.units();
    if (then >= now * 0.99) return;
    symptoms_.findings.push_back(config_warning(
        "drain-depth", "drain_depth", std::to_string(recommended.drain_depth),
        std::to_string(plan_.drain_depth),
        fmt::format("drain_depth = {}: with the measured times {} would take {} instead of "
                    "{}; set drain_depth = {}, and the costs as measured",
                    plan_.drain_depth, recommended.drain_depth, shown(then), shown(now),
                    recommended.drain_depth)));
  }

  const Plan& plan_;
  MeasuredTimes measured_;
  bool split_ = false;
  Symptoms symptoms_;
};

}  // namespace

Symptoms find_symptoms(const Plan& plan, const MeasuredTimes& measured) {
  return Comparison(plan, measured).find();
}

}  // namespace sluice
