#include "measured_input.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sluice/log_reader.hpp>
#include <sluice/log_times.hpp>

#include "errors.hpp"
#include "log_input.hpp"

namespace sluice::tools {
namespace {

constexpr std::string_view keys =
    "forward=LIST, backward=LIST, input_grad=LIST, weight_grad=LIST, link=LIST, step=T, "
    "steps=M:T,..., or the path of a log";

[[noreturn]] void refuse(std::string_view given, std::string_view expected) {
  throw UsageError("--measured", fmt::format("{}: expected {}", given.substr(0, 80), expected));
}

std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number >= 0 && number < 9e12 ? std::optional(number) : std::nullopt;
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(by);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<Time> times_in(std::string_view given, std::string_view list) {
  std::vector<Time> times;
  for (const std::string_view each : split(list, ',')) {
    const auto number = number_in(each);
    if (!number) refuse(given, "times of 0 or more, separated by commas");
    times.push_back(Time::from_units(*number));
  }
  return times;
}

std::vector<StepPoint> points_in(std::string_view given, std::string_view list) {
  std::vector<StepPoint> points;
  for (const std::string_view each : split(list, ',')) {
    const auto colon = each.find(':');
    const auto microbatches = number_in(each.substr(0, colon));
    const auto seconds =
        colon == std::string_view::npos ? std::nullopt : number_in(each.substr(colon + 1));
    const bool whole = microbatches && *microbatches >= 1 && *microbatches <= 1e9 &&
                       *microbatches == static_cast<int>(*microbatches);
    if (!whole || !seconds) {
      refuse(given, "microbatches and the time of a step with as many, like 32:35.77,64:59.65");
    }
    points.push_back({static_cast<int>(*microbatches), *seconds});
  }
  return points;
}

/// Whether `given` is typed in; then it is in `measured`.
bool take_typed(std::string_view given, MeasuredInput& measured) {
  const auto equals = given.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = given.substr(0, equals);
  const std::string_view value = given.substr(equals + 1);
  MeasuredTimes& times = measured.times;
  if (key == "forward") {
    times.forward = times_in(given, value);
  } else if (key == "backward") {
    times.backward = times_in(given, value);
  } else if (key == "input_grad") {
    times.input_gradient = times_in(given, value);
  } else if (key == "weight_grad") {
    times.weight_gradient = times_in(given, value);
  } else if (key == "link") {
    times.link = times_in(given, value);
  } else if (key == "step") {
    times.step = times_in(given, value).front();
  } else if (key == "steps") {
    measured.steps = points_in(given, value);
  } else {
    return false;
  }
  return true;
}

void read_logs(const std::vector<std::string>& paths, MeasuredInput& measured) {
  LogTimes times;
  std::vector<LogLine> lines;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    LogInput input(paths[i]);
    LogReader reader(static_cast<int>(i));
    const auto take = [&] {
      for (const LogLine& line : lines) times.add(line);
      lines.clear();
    };
    for (std::string bytes; input.read(bytes); take()) reader.feed(bytes, lines);
    reader.finish(lines);
    take();
    if (const auto& problem = reader.problem()) {
      throw UsageError(fmt::format("{}:{}", input.name(), problem->line),
                       fmt::format("expected {}, found {}", problem->expected, problem->found));
    }
  }
  if (times.actions() == 0) {
    refuse(
        fmt::format("{}", fmt::join(paths, ", ")),
        "records with t=NANOSECONDS, as sluice train --log writes them; a recording has no times");
  }
  measured.times = times.times();
  measured.unit = " ms";
  if (times.untimed() > 0) {
    measured.remarks.push_back(fmt::format("{} records without t do not count", times.untimed()));
  }
  if (!times.clocks_agree()) {
    measured.remarks.emplace_back(
        "the clocks of its stages do not agree: something arrives before it was sent; links and "
        "step "
        "were not measured");
  }
}

std::string shown(Time time) { return fmt::format("{:.5g}", time.units()); }

void add_symptoms(const Plan& plan, const MeasuredInput& measured, std::string& text) {
  const Symptoms symptoms = find_symptoms(plan, measured.times);
  const auto line = [&text](std::string_view what, const std::string& value) {
    text += fmt::format("{:<18}{}\n", what, value);
  };
  line("measured", fmt::format("1 of the plan is {:.5g}{}", symptoms.unit, measured.unit));
  text += fmt::format("{:>20}  {:>18}  {:>18}\n", "stage", "forward", "backward");
  text += fmt::format("{:>20}  {:>9}{:>9}  {:>9}{:>9}\n", "", "planned", "measured", "planned",
                      "measured");
  for (std::size_t s = 0; s < symptoms.shares.size(); ++s) {
    const StageShare& share = symptoms.shares[s];
    text += fmt::format("{:>20}  {:>9}{:>9}  {:>9}{:>9}\n", s, shown(share.planned_forward),
                        shown(share.measured_forward), shown(share.planned_backward),
                        shown(share.measured_backward));
  }
  line("balance", fmt::format("{:.1f}%: {} stages are worth {:.2f}", 100 * symptoms.balance,
                              plan.stages, plan.stages * symptoms.balance));
  std::string step = fmt::format("planned {}, explained by what was measured {}",
                                 shown(symptoms.planned), shown(symptoms.explained));
  if (measured.times.step) step += fmt::format(", measured {}", shown(*measured.times.step));
  line("step", step + measured.unit);
  for (const std::string& remark : measured.remarks) line("note", remark);
  for (const Finding& finding : symptoms.findings) {
    text += fmt::format("warning: {}: {}\n", finding.rule, finding.message);
  }
  if (symptoms.findings.empty()) line("", "plan and run agree");
}

void add_fit(const Plan& plan, const MeasuredInput& measured, std::string& text) {
  const StepFit fit = fit_steps(plan.config, measured.steps);
  text += fmt::format("{:<18}1 of the plan is {:.5g}, by the step with most microbatches alone\n",
                      "steps", fit.unit);
  text += fmt::format("{:>20}  {:>9}  {:>9}  {:>7}\n", "M", "measured", "predicted", "error");
  for (std::size_t i = 0; i < measured.steps.size(); ++i) {
    text += fmt::format("{:>20}  {:>9.5g}  {:>9.5g}  {:>6.1f}%\n", measured.steps[i].microbatches,
                        measured.steps[i].seconds, fit.predicted[i], 100 * fit.error[i]);
  }
  if (fit.fixed != 0) {
    text += fmt::format(
        "{:<18}{:.3g} of every step, whatever M, explains it best, and {:.5g} for 1 "
        "of the plan\n",
        "fixed", fit.fixed, fit.unit_beside);
  }
}

UsageError as_usage(const ConfigError& error) {
  std::vector<std::string> lines;
  for (const Finding& finding : error.findings()) {
    lines.push_back(error_line("--measured", finding.message));
  }
  return UsageError(std::move(lines));
}

}  // namespace

MeasuredInput read_measured(std::span<const std::string> given) {
  MeasuredInput measured;
  std::vector<std::string> logs;
  std::vector<std::string> typed;
  for (const std::string& each : given) {
    const bool is_file = std::filesystem::exists(each) || each == "-";
    if (!is_file && !take_typed(each, measured) && each.find('=') != std::string::npos) {
      refuse(each, keys);
    }
    (is_file || each.find('=') == std::string::npos ? logs : typed).push_back(each);
  }
  if (!logs.empty() && !typed.empty()) {
    refuse(typed.front(), "either a log or times typed in, found both");
  }
  if (!logs.empty()) read_logs(logs, measured);
  return measured;
}

std::string measured_text(const Plan& plan, const MeasuredInput& measured) {
  std::string text;
  try {
    if (measured.has_times() || measured.steps.empty()) add_symptoms(plan, measured, text);
    if (!measured.steps.empty()) add_fit(plan, measured, text);
  } catch (const ConfigError& error) {
    throw as_usage(error);
  }
  return text;
}

Json measured_json(const Plan& plan, const MeasuredInput& measured) {
  Json json;
  try {
    if (measured.has_times() || measured.steps.empty()) {
      const Symptoms symptoms = find_symptoms(plan, measured.times);
      json["unit"] = symptoms.unit;
      json["stages"] = Json::array();
      for (const StageShare& share : symptoms.shares) {
        Json stage;
        stage["planned_forward"] = json_of(share.planned_forward);
        stage["measured_forward"] = json_of(share.measured_forward);
        stage["planned_backward"] = json_of(share.planned_backward);
        stage["measured_backward"] = json_of(share.measured_backward);
        json["stages"].push_back(std::move(stage));
      }
      json["balance"] = json_of(symptoms.balance);
      json["slowest"] = symptoms.slowest.value;
      json["planned"] = json_of(symptoms.planned);
      json["explained"] = json_of(symptoms.explained);
      if (measured.times.step) json["step"] = json_of(*measured.times.step);
      json["findings"] = json_of(symptoms.findings);
    }
    if (!measured.steps.empty()) {
      const StepFit fit = fit_steps(plan.config, measured.steps);
      Json& steps = json["fit"];
      steps["unit"] = fit.unit;
      steps["predicted"] = fit.predicted;
      steps["error"] = fit.error;
      steps["fixed"] = fit.fixed;
      steps["unit_beside"] = fit.unit_beside;
    }
  } catch (const ConfigError& error) {
    throw as_usage(error);
  }
  return json;
}

}  // namespace sluice::tools
