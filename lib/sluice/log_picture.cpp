#include <sluice/log_picture.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include <sluice/picture.hpp>

namespace sluice {
namespace {

constexpr std::size_t most_actions = 1 << 14;
constexpr int most_rows = 128;
constexpr std::size_t nearby = 1 << 10;

Time end_of(const std::vector<TimedAction>& actions) {
  Time end;
  for (const TimedAction& timed : actions) end = std::max(end, timed.end);
  return end;
}

/// What an action takes where no clock says it: what was planned, or 1.
Time cost_of(const Action& action, const Plan* plan) {
  if (plan == nullptr || action.stage.value >= plan->stages) return Time::from_units(1);
  const std::size_t s = action.stage.index();
  switch (action.phase) {
    case Phase::forward: return plan->costs.forward[s];
    case Phase::backward: return plan->costs.backward[s];
    case Phase::input_gradient: return plan->costs.input_gradient[s];
    default: return plan->costs.weight_gradient[s];
  }
}

int stages_of(const std::vector<TimedAction>& actions) {
  std::int32_t stages = 0;
  for (const TimedAction& timed : actions) stages = std::max(stages, timed.action.stage.value + 1);
  return stages;
}

}  // namespace

void MeasuredStep::add(const LogLine& line) {
  const LogRecord& record = line.record;
  timed_ = timed_ && record.t_ns.has_value();
  if (spans_.empty()) first_ns_ = record.t_ns.value_or(0);
  first_ns_ = std::min(first_ns_, record.t_ns.value_or(0));
  last_ = record;
  if (record.event == LogRecord::Event::enter) {
    if (spans_.size() < most_actions) spans_.push_back({record.action, record, record, true});
    return;
  }
  // An action that is still open stands near the end, unless the log is broken.
  const std::size_t far = std::min(spans_.size(), nearby);
  const auto end = spans_.rbegin() + static_cast<std::ptrdiff_t>(far);
  const auto span = std::find_if(spans_.rbegin(), end, [&record](const Span& each) {
    return each.open && each.action == record.action;
  });
  if (span == end) return;
  span->exit = record;
  span->open = false;
}

std::vector<TimedAction> MeasuredStep::actions(const Plan* plan) const {
  std::vector<TimedAction> actions;
  std::map<StageId, Time> free;
  std::map<std::tuple<bool, StageId, MicrobatchId>, Time> ended;  // of forwards, of gradients
  for (const Span& span : spans_) {
    const Action& action = span.action;
    TimedAction timed{action, RankId(action.stage.value), {}, {}};
    if (timed_) {
      timed.start = Time::from_millionths(*span.enter.t_ns - first_ns_);
      timed.end = Time::from_millionths(*(span.open ? last_ : span.exit).t_ns - first_ns_);
    } else {
      const bool forward = action.phase == Phase::forward;
      const StageId before = forward ? action.stage.previous() : action.stage.next();
      timed.start = std::max(free[action.stage], ended[{forward, before, action.mb}]);
      timed.end = timed.start + cost_of(action, plan);
      free[action.stage] = timed.end;
      ended[{forward, action.stage, action.mb}] = timed.end;
    }
    actions.push_back(timed);
  }
  return actions;
}

std::size_t MeasuredStep::action_of(std::int64_t seq) const {
  std::size_t last = 0;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    const Span& span = spans_[i];
    if (span.enter.seq == seq || (!span.open && span.exit.seq == seq)) return i;
    if (span.enter.seq < seq) last = i;
  }
  return last;
}

std::string draw_wrong(const Plan* plan, const MeasuredStep& measured, std::int64_t seq,
                       StageId stage, std::string_view rule) {
  if (measured.empty()) return "";
  const std::vector<TimedAction> actions = measured.actions(plan);
  const int stages = std::max(stages_of(actions), stage.value + 1);
  // A stage number can be anything in a log that is wrong.
  if (stages > most_rows) return "";
  std::string text;
  Scale scale = fit(actions, stages);
  if (plan != nullptr) {
    const Scale planned = fit(plan->timeline.actions, plan->stages);
    text = "planned\n" + draw(plan->timeline.actions, plan->stages, planned);
    Timeline whole;
    whole.makespan = measured.timed() ? end_of(actions) : plan->timeline.makespan;
    if (whole.makespan > Time()) scale = same_columns(planned, plan->timeline, whole);
  }
  text += "measured\n";
  const std::string rows = draw(actions, stages, scale);
  // The arrow stands under its stage's row, behind as many columns of label.
  const std::size_t label = rows.find('|') + 1;
  const Time wrong = actions[measured.action_of(seq)].start;
  const auto column = std::lround(wrong.units() / scale.span.units() * scale.columns);
  std::size_t at = 0;
  for (int row = 0; row <= stage.value; ++row) at = rows.find('\n', at) + 1;
  text.append(rows, 0, at);
  if (column < scale.columns) {
    text.append(label + static_cast<std::size_t>(column), ' ');
    text += fmt::format("^ seq {}: {}\n", seq, rule);
  } else {
    text.append(label, ' ');
    text += fmt::format("> seq {}: {}, further right\n", seq, rule);
  }
  return text.append(rows, at);
}

}  // namespace sluice
