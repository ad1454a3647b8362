#include <sluice/step_fit.hpp>

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

namespace sluice {
namespace {

void check(std::span<const StepPoint> points) {
  const auto bad = std::find_if(points.begin(), points.end(), [](const StepPoint& point) {
    const bool fits = point.seconds > 0 && point.seconds < 9e12;  // no to a NaN
    return !fits;
  });
  if (bad == points.end() && !points.empty()) return;
  Finding error;
  error.rule = "costs";
  error.key = "steps";
  error.expected = "microbatches and positive times, one step or more";
  error.found = points.empty() ? "none" : fmt::format("{}", bad->seconds);
  error.message = fmt::format("measured steps = {}: expected {}", error.found, error.expected);
  throw ConfigError({error});
}

/// Makespan of the plan with the point's M.
double slots_of(PlanConfig config, const StepPoint& point) {
  config.microbatches = point.microbatches;
  config.detail = Detail::metrics;
  config.costs.sizes.clear();  // they are those of another M
  return derive_plan(config).timeline.makespan.units();
}

}  // namespace

StepFit fit_steps(const PlanConfig& config, std::span<const StepPoint> points) {
  check(points);
  std::vector<double> slots;
  std::size_t largest = 0;
  double mean_slots = 0;
  double mean_seconds = 0;
  const auto count = static_cast<double>(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    slots.push_back(slots_of(config, points[i]));
    if (points[i].microbatches > points[largest].microbatches) largest = i;
    mean_slots += slots.back() / count;
    mean_seconds += points[i].seconds / count;
  }
  StepFit fit;
  fit.unit = slots[largest] > 0 ? points[largest].seconds / slots[largest] : 0;
  double square = 0;
  double product = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    fit.predicted.push_back(fit.unit * slots[i]);
    fit.error.push_back(fit.predicted.back() / points[i].seconds - 1);
    square += (slots[i] - mean_slots) * (slots[i] - mean_slots);
    product += (slots[i] - mean_slots) * (points[i].seconds - mean_seconds);
  }
  fit.unit_beside = square > 0 ? product / square : fit.unit;
  fit.fixed = square > 0 ? mean_seconds - fit.unit_beside * mean_slots : 0;
  return fit;
}

}  // namespace sluice
