#include "plan_report.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/back_to_back.hpp>
#include <sluice/critical_path.hpp>
#include <sluice/log.hpp>
#include <sluice/queue_marks.hpp>
#include <sluice/recommend.hpp>
#include <sluice/schedule_csv.hpp>

namespace sluice::tools {

namespace {

std::string slots_of(const Plan& plan) {
  std::string text = plan.slots ? fmt::format("{} between two stages", *plan.slots)
                                : std::string("as many as it takes");
  if (plan.slots_safe) text += fmt::format("; {} cannot get stuck", *plan.slots_safe);
  return text + fmt::format(", {} never block", plan.slots_never_blocking);
}

std::optional<Recommendation> recommend(const Plan& plan) {
  // A schedule that is a list of actions has no W to choose; another schedule's would mislead.
  if (is_listed(plan.schedule) || plan.schedule == ScheduleName::custom) return std::nullopt;
  try {
    return recommend_drain_depth(plan.config);
  } catch (const ConfigError&) {
    return std::nullopt;  // no drain depth fits; another schedule may
  }
}

/// The prices worth a line: the ends, the one to take and its neighbours, 1F1B, a half and a double.
std::vector<DepthPrice> shown_of(const Recommendation& recommendation, int usual) {
  const auto& prices = recommendation.prices;
  const int taken = recommendation.drain_depth;
  const std::vector<int> wanted{
      prices.front().drain_depth, taken / 2, taken - 1, taken, taken + 1, 2 * taken, usual,
      prices.back().drain_depth};
  std::vector<DepthPrice> shown;
  std::copy_if(prices.begin(), prices.end(), std::back_inserter(shown),
               [&](const DepthPrice& each) {
                 return std::find(wanted.begin(), wanted.end(), each.drain_depth) != wanted.end();
               });
  return shown;
}

std::string prices_of(const Recommendation& recommendation, int usual) {
  const auto shown = shown_of(recommendation, usual);
  const bool bytes = std::any_of(shown.begin(), shown.end(),
                                 [](const DepthPrice& each) { return each.most_bytes > 0; });
  std::string text = fmt::format("{:>20}  {:>12}  {:>9}{}\n", "W", "makespan", "most held",
                                 bytes ? "    most bytes" : "");
  for (const DepthPrice& each : shown) {
    text += fmt::format("{:>20}  {:>12}  {:>9}", each.drain_depth, each.makespan.units(),
                        each.most_held);
    if (bytes) text += fmt::format("  {:>12}", each.most_bytes);
    text += each.drain_depth == recommendation.drain_depth ? "  recommended\n" : "\n";
  }
  return text;
}

/// `4,3,2,1`; the middle of a long list is left out.
template <class Numbers>
std::string list_of(const Numbers& numbers) {
  constexpr std::size_t end = 16;
  if (numbers.size() <= 4 * end) return fmt::format("{}", fmt::join(numbers, ","));
  const auto from = static_cast<std::ptrdiff_t>(end);
  return fmt::format("{}, ... {} more ..., {}",
                     fmt::join(numbers.begin(), numbers.begin() + from, ","),
                     numbers.size() - 2 * end, fmt::join(numbers.end() - from, numbers.end(), ","));
}

/// The ends of a chain; the middle of a long one is left out.
std::string chain_of(const std::vector<TimedAction>& actions) {
  constexpr std::size_t end = 4;
  std::string text;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (actions.size() > 2 * end && i == end) {
      text += fmt::format(" ... {} more ...", actions.size() - 2 * end);
      i = actions.size() - end;
    }
    if (!text.empty()) text += ' ';
    text += to_string(actions[i].action);
  }
  return text;
}

/// `2 x 3, 1 x 2`: runs of equal numbers, the first few.
std::string runs_of(const std::vector<std::int64_t>& numbers) {
  constexpr int most = 8;
  std::string text;
  int runs = 0;
  for (auto from = numbers.begin(); from != numbers.end();) {
    if (++runs > most) return text + ", ...";
    const auto to = std::find_if(from, numbers.end(), [&](auto each) { return each != *from; });
    if (!text.empty()) text += ", ";
    text += fmt::format("{} x {}", to - from, *from);
    from = to;
  }
  return text;
}

std::int64_t sum_of(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

std::vector<double> idle_of(const Plan& plan) {
  std::vector<double> idle;
  idle.reserve(plan.timeline.ranks.size());
  for (const RankSpan& rank : plan.timeline.ranks) idle.push_back(rank.idle().units());
  return idle;
}

}  // namespace

std::string title_of(const Plan& plan) {
  return fmt::format("S={} stages, M={} microbatches, W={} drain depth; schedule {}, {} order\n",
                     plan.stages, plan.microbatches, plan.drain_depth,
                     plan.config.custom ? "of one's own" : to_string(plan.schedule),
                     plan.order_mode == OrderMode::adaptive ? "adaptive" : "fixed");
}

std::string header_of(const Plan& plan) {
  std::string text = title_of(plan) + '\n';
  const auto line = [&text](const char* what, const std::string& value) {
    text += fmt::format("{:<18}{}\n", what, value);
  };
  line("credits", list_of(plan.credits));
  line("gate", fmt::format("{} held by the last stage when its first backward starts", plan.gate));
  line("makespan", fmt::format("{}", plan.timeline.makespan.units()));
  line("bubble", fmt::format("{:.1f}% of the makespan, {:.1f}% of the ideal",
                             100 * plan.bubble_of_makespan, 100 * plan.bubble_of_ideal));
  line("peak held", list_of(plan.timeline.peak_held));
  line("entered", fmt::format("{} when the first backward starts", plan.entered_at_first_backward));
  if (plan.ranks != plan.stages) {
    line("ranks", fmt::format("{}, {} stages each", plan.ranks, plan.stages / plan.ranks));
  }
  const auto& bytes = plan.peak_bytes;
  if (std::any_of(bytes.begin(), bytes.end(), [](std::int64_t each) { return each > 0; })) {
    line("peak bytes", list_of(bytes));
  }
  line("slots", slots_of(plan));
  if (const auto& sizes = plan.costs.sizes; !sizes.empty()) {
    line("sizes", fmt::format("{}; each microbatch weighs its share of {} in the mean",
                              runs_of(sizes), sum_of(sizes)));
  }
  return text;
}

std::string details_of(const Plan& plan) {
  std::string text;
  const auto line = [&text](const char* what, const std::string& value) {
    text += fmt::format("{:<18}{}\n", what, value);
  };
  line("idle inside", fmt::format("{} between a rank's own start and end", list_of(idle_of(plan))));
  if (plan.stages > 1) {
    const QueueMarks marks = queue_marks(plan);
    line("most waiting", fmt::format("{} outputs, {} gradients between two stages",
                                     list_of(marks.down), list_of(marks.up)));
  }
  line("back to back", fmt::format("{} a step, when no rank waits for the others between steps",
                                   step_back_to_back(plan).units()));
  const CriticalPath path = critical_path(plan);
  line("critical path", chain_of(path.actions));
  const double share = path.of_stage[path.bottleneck.index()].units();
  line("bottleneck",
       fmt::format("stage {}: {} of the path; 1% less there brings {}", path.bottleneck.value,
                   share, gain_of_one_percent(plan, path.bottleneck).units()));
  return text;
}

std::string findings_of(const Plan& plan) {
  std::string text;
  for (const Finding& finding : plan.findings) {
    text += fmt::format("{}: {}: {}\n", finding.severity == Severity::error ? "error" : "warning",
                        finding.rule, finding.message);
  }
  return text.empty() ? text : '\n' + text;
}

std::string recommendation_of(const Plan& plan) {
  const auto recommendation = recommend(plan);
  if (!recommendation) return "";
  return fmt::format("{:<18}W={}: {}\n{}", "recommended", recommendation->drain_depth,
                     recommendation->why, prices_of(*recommendation, plan.stages - 1));
}

Scale scale_of(const Plan& plan) {
  return fit(plan.timeline.actions, plan.stages, picture_columns);
}

std::string picture_of(const Plan& plan, const Scale& scale) {
  return draw(plan.timeline.actions, plan.stages, scale);
}

Track track_of(const Plan& plan) {
  Track track;
  track.heading = title_of(plan);
  track.heading.pop_back();  // the end of the line
  track.actions = plan.timeline.actions;
  track.stages = plan.stages;
  return track;
}

Json json_of(const Plan& plan) {
  Json json;
  json["stages"] = plan.stages;
  json["microbatches"] = plan.microbatches;
  json["drain_depth"] = plan.drain_depth;
  json["schedule"] = to_string(plan.schedule);
  json["credits"] = plan.credits;
  json["order"] = Json::array();
  for (const auto& of_rank : plan.order) {
    std::vector<std::string> cells;
    cells.reserve(of_rank.size());
    for (const Action& action : of_rank) cells.push_back(to_string(action));
    json["order"].push_back(std::move(cells));
  }
  // Into the list behind the object: a look-up by key would compare it with all before it.
  auto& start = (json["start"] = Json::object()).get_ref<Json::object_t&>();
  start.reserve(plan.timeline.actions.size());
  for (const TimedAction& timed : plan.timeline.actions) {
    start.emplace_back(to_string(timed.action), json_of(timed.start));
  }
  json["makespan"] = json_of(plan.timeline.makespan);
  json["bubble"]["of_makespan"] = json_of(plan.bubble_of_makespan);
  json["bubble"]["of_ideal"] = json_of(plan.bubble_of_ideal);
  json["peak_held"] = plan.timeline.peak_held;
  json["entered_at_first_backward"] = plan.entered_at_first_backward;
  if (plan.slots_safe) json["slots"]["safe"] = *plan.slots_safe;
  json["slots"]["never_blocking"] = plan.slots_never_blocking;
  if (const auto recommendation = recommend(plan)) {
    json["recommended"]["drain_depth"] = recommendation->drain_depth;
    json["recommended"]["why"] = recommendation->why;
    json["recommended"]["prices"] = Json::array();
    for (const DepthPrice& each : recommendation->prices) {
      Json price;
      price["drain_depth"] = each.drain_depth;
      price["makespan"] = json_of(each.makespan);
      price["most_held"] = each.most_held;
      if (each.most_bytes > 0) price["most_bytes"] = each.most_bytes;
      json["recommended"]["prices"].push_back(std::move(price));
    }
  }
  json["idle"] = Json::array();
  for (const double idle : idle_of(plan)) json["idle"].push_back(json_of(idle));
  json["peak_bytes"] = plan.peak_bytes;
  const auto all = static_cast<double>(sum_of(plan.costs.sizes));
  for (const std::int64_t size : plan.costs.sizes) {
    json["weights"].push_back(static_cast<double>(size) / all);
  }
  const QueueMarks marks = queue_marks(plan);
  json["most_waiting"]["outputs"] = marks.down;
  json["most_waiting"]["gradients"] = marks.up;
  json["back_to_back"] = json_of(step_back_to_back(plan));
  const CriticalPath path = critical_path(plan);
  Json& critical = json["critical_path"];
  critical["actions"] = Json::array();
  for (const TimedAction& timed : path.actions) {
    critical["actions"].push_back(to_string(timed.action));
  }
  critical["of_stage"] = Json::array();
  for (const Time time : path.of_stage) critical["of_stage"].push_back(json_of(time));
  critical["between"] = json_of(path.between);
  critical["bottleneck"] = path.bottleneck.value;
  critical["one_percent_less"] = json_of(gain_of_one_percent(plan, path.bottleneck));
  json["findings"] = json_of(plan.findings);
  return json;
}

std::string csv_of(const Plan& plan) {
  return write_schedule_csv(Schedule{plan.order, plan.rank_of, plan.overlapped});
}

std::string log_of(const Plan& plan) {
  std::string text;
  for (const LogRecord& record : expected_log(plan.timeline)) text += to_line(record) + '\n';
  return text;
}

}  // namespace sluice::tools
