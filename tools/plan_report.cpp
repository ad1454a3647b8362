#include "plan_report.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <sluice/log.hpp>
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
  try {
    return recommend_drain_depth(plan.config);
  } catch (const ConfigError&) {
    return std::nullopt;  // no drain depth fits; another schedule may
  }
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
  line("credits", fmt::format("{}", fmt::join(plan.credits, ",")));
  line("gate", fmt::format("{} held by the last stage when its first backward starts", plan.gate));
  line("makespan", fmt::format("{}", plan.timeline.makespan.units()));
  line("bubble", fmt::format("{:.1f}% of the makespan, {:.1f}% of the ideal",
                             100 * plan.bubble_of_makespan, 100 * plan.bubble_of_ideal));
  line("peak held", fmt::format("{}", fmt::join(plan.timeline.peak_held, ",")));
  line("entered", fmt::format("{} when the first backward starts", plan.entered_at_first_backward));
  if (plan.ranks != plan.stages) {
    line("ranks", fmt::format("{}, {} stages each", plan.ranks, plan.stages / plan.ranks));
  }
  const auto& bytes = plan.peak_bytes;
  if (std::any_of(bytes.begin(), bytes.end(), [](std::int64_t each) { return each > 0; })) {
    line("peak bytes", fmt::format("{}", fmt::join(bytes, ",")));
  }
  line("slots", slots_of(plan));
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
  return fmt::format("{:<18}W={}: {}\n", "recommended", recommendation->drain_depth,
                     recommendation->why);
}

Scale scale_of(const Plan& plan) {
  return fit(plan.timeline.actions, plan.stages, picture_columns);
}

std::string picture_of(const Plan& plan, const Scale& scale) {
  return draw(plan.timeline.actions, plan.stages, scale);
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
    for (const Action& action : of_rank) cells.push_back(to_string(action));
    json["order"].push_back(std::move(cells));
  }
  json["start"] = Json::object();
  for (const TimedAction& timed : plan.timeline.actions) {
    json["start"][to_string(timed.action)] = json_of(timed.start);
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
  }
  json["findings"] = json_of(plan.findings);
  return json;
}

std::string csv_of(const Plan& plan) {
  return write_schedule_csv({plan.order, plan.rank_of, plan.overlapped});
}

std::string log_of(const Plan& plan) {
  std::string text;
  for (const LogRecord& record : expected_log(plan.timeline)) text += to_line(record) + '\n';
  return text;
}

}  // namespace sluice::tools
