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

constexpr std::size_t most_records = std::size_t{1} << 15;
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
  last_.seq = record.seq;
  last_.t_ns = record.t_ns.value_or(0);
  last_.action = record.action;
  last_.event = record.event;
  if (records_.size() < most_records) records_.push_back(last_);
}

void MeasuredStep::clear() {
  records_.clear();
  timed_ = true;
}

std::vector<MeasuredStep::Span> MeasuredStep::spans() const {
  std::vector<Span> spans;
  for (const Seen& seen : records_) {
    if (seen.event == LogRecord::Event::enter) {
      spans.push_back({seen, last_, true});
      continue;
    }
    // An action that is still open stands near the end, unless the log is broken.
    const auto end = spans.rbegin() + static_cast<std::ptrdiff_t>(std::min(spans.size(), nearby));
    const auto span = std::find_if(spans.rbegin(), end, [&seen](const Span& each) {
      return each.open && each.enter.action == seen.action;
    });
    if (span == end) continue;
    span->exit = seen;
    span->open = false;
  }
  return spans;
}

std::vector<TimedAction> MeasuredStep::actions(const Plan* plan) const {
  std::vector<TimedAction> actions;
  std::map<StageId, Time> free;
  std::map<std::tuple<bool, StageId, MicrobatchId>, Time> ended;  // of forwards, of gradients
  std::int64_t first_ns = last_.t_ns;
  for (const Seen& seen : records_) first_ns = std::min(first_ns, seen.t_ns);
  for (const Span& span : spans()) {
    const Action& action = span.enter.action;
    TimedAction timed{action, RankId(action.stage.value), {}, {}};
    if (timed_) {
      timed.start = Time::from_millionths(span.enter.t_ns - first_ns);
      timed.end = Time::from_millionths(span.exit.t_ns - first_ns);
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
  const std::vector<Span> all = spans();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].enter.seq == seq || (!all[i].open && all[i].exit.seq == seq)) return i;
    if (all[i].enter.seq < seq) last = i;
  }
  return last;
}

LogPicture::LogPicture(const Plan* plan, const MeasuredStep& measured,
                       const std::optional<Wrong>& wrong)
    : measured_(measured.actions(plan)), timed_(measured.timed()) {
  if (plan != nullptr) {
    planned_ = plan->timeline.actions;
    planned_stages_ = plan->stages;
    makespan_ = plan->timeline.makespan;
  }
  stages_ = std::max({1, planned_stages_, stages_of(measured_)});
  if (!wrong || measured_.empty()) return;
  stages_ = std::max(stages_, wrong->stage.value + 1);
  wrong_ = Mark{wrong->stage, measured_[measured.action_of(wrong->seq)].start,
                fmt::format("seq {}: {}", wrong->seq, wrong->rule)};
}

/// A stage number can be anything in a log that is wrong.
bool LogPicture::drawable() const { return !measured_.empty() && stages_ <= most_rows; }

std::string LogPicture::text() const {
  if (!drawable()) return "";
  std::string text;
  Scale scale = fit(measured_, stages_);
  if (!planned_.empty()) {
    const Scale planned = fit(planned_, planned_stages_);
    text = "planned\n" + draw(planned_, planned_stages_, planned);
    Timeline derived, whole;
    derived.makespan = makespan_;
    whole.makespan = timed_ ? end_of(measured_) : makespan_;
    if (whole.makespan > Time()) scale = same_columns(planned, derived, whole);
  }
  text += "measured\n";
  const std::string rows = draw(measured_, stages_, scale);
  if (!wrong_) return text + rows;
  // The arrow stands under its stage's row, behind as many columns of label.
  const std::size_t label = rows.find('|') + 1;
  const auto column = std::lround(wrong_->at.units() / scale.span.units() * scale.columns);
  std::size_t at = 0;
  for (int row = 0; row <= wrong_->stage.value; ++row) at = rows.find('\n', at) + 1;
  text.append(rows, 0, at);
  if (column < scale.columns) {
    text.append(label + static_cast<std::size_t>(column), ' ');
    text += fmt::format("^ {}\n", wrong_->text);
  } else {
    text.append(label, ' ');
    text += fmt::format("> {}, further right\n", wrong_->text);
  }
  return text.append(rows, at);
}

std::vector<Track> LogPicture::tracks() const {
  std::vector<Track> tracks;
  if (!drawable()) return tracks;
  // Without clocks both are in the plan's unit; with them each fills the width.
  const Time span = timed_ ? Time() : std::max(makespan_, end_of(measured_));
  if (!planned_.empty()) tracks.push_back({"planned", planned_, planned_stages_, span, "", {}});
  tracks.push_back({"measured", measured_, stages_, span, timed_ ? " ms" : "", wrong_});
  return tracks;
}

}  // namespace sluice
