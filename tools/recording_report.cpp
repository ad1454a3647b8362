#include "recording_report.hpp"

#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include <sluice/picture.hpp>
#include <sluice/timeline.hpp>

#include "plan_report.hpp"

namespace sluice::tools {
namespace {

std::string verdict_of(const replay::RecordedStep& step) {
  if (!step.complete) return "the recording ends here";
  return step.error.empty() ? "applied" : step.error;
}

}  // namespace

std::string verdicts_text(const replay::Recording& recording) {
  struct Run {
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::string verdict;
  };
  std::vector<Run> runs;
  for (std::size_t i = 0; i < recording.steps(); ++i) {
    const replay::RecordedStep step = recording.step(i);
    const std::string verdict = verdict_of(step);
    if (runs.empty() || runs.back().verdict != verdict) {
      runs.push_back({step.number, step.number, verdict});
    }
    runs.back().last = step.number;
  }
  std::string text;
  for (const Run& run : runs) {
    const std::string steps = run.first == run.last
                                  ? fmt::format("step {}", run.first)
                                  : fmt::format("steps {}..{}", run.first, run.last);
    text += fmt::format("{:<18}{}\n", steps, run.verdict);
  }
  return text;
}

Timeline timeline_of(const replay::RecordedStep& step, const Plan& plan) {
  Schedule schedule;
  schedule.rank_of = plan.rank_of;
  for (const auto& events : step.ranks) {
    auto& of_rank = schedule.order.emplace_back();
    for (const Event& event : events) {
      if (event.kind == Event::Kind::enter) of_rank.push_back(event.action);
    }
  }
  return simulate_order(schedule, plan.microbatches, plan.costs);
}

std::string order_picture(const replay::RecordedStep& step, const Plan& plan) {
  const Timeline timeline = timeline_of(step, plan);
  return draw(timeline.actions, plan.stages, fit(timeline.actions, plan.stages, picture_columns));
}

std::string picks_text(std::span<const UnplannedPick> picks) {
  if (picks.empty()) return "every action as planned\n";
  std::string text;
  for (const UnplannedPick& pick : picks) {
    text += fmt::format("seq {}: rank {} ran {} although {} was next\n", pick.seq, pick.rank.value,
                        to_string(pick.action), to_string(pick.planned));
  }
  return text;
}

std::string life_in(const replay::RecordedStep& step, MicrobatchId mb) {
  Selection selection;
  selection.mb = mb;
  std::vector<TimedAction> actions;
  for (const NumberedEvent& numbered : events_of(step, selection)) {
    if (numbered.event.kind != Event::Kind::enter) continue;
    const Time place = Time::from_millionths(numbered.seq);
    actions.push_back({numbered.event.action, numbered.event.rank, place, place});
  }
  return life_of(actions, mb);
}

}  // namespace sluice::tools
