#include <sluice/log_times.hpp>

#include <algorithm>
#include <array>

namespace sluice {
namespace {

constexpr std::size_t most_kept = std::size_t{1} << 14;
/// Of actions and values whose other end is not in the log.
constexpr std::size_t most_open = std::size_t{1} << 20;
/// A stage number in a log can be anything.
constexpr std::int32_t most_stages = 1 << 16;

std::int64_t median_of(std::vector<std::int64_t> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace

void LogTimes::Durations::add(std::int64_t ns) {
  if (kept_.size() < most_kept) {
    kept_.push_back(ns);
    return;
  }
  kept_[next_] = ns;
  next_ = (next_ + 1) % most_kept;
}

std::int64_t LogTimes::Durations::median() const { return median_of(kept_); }

std::int64_t LogTimes::step_of(const LogLine& line) {
  if (line.record.step) return *line.record.step;
  Source& source = sources_[line.source];
  if (line.record.event == LogRecord::Event::enter) {
    if (!source.first) {
      source.first = line.record.action;
    } else if (*source.first == line.record.action) {
      ++source.step;
    }
  }
  return source.step;
}

void LogTimes::add(const LogLine& line) {
  const LogRecord& record = line.record;
  const Action& action = record.action;
  if (!record.t_ns || action.stage.value >= most_stages) {
    ++untimed_;
    return;
  }
  const std::int64_t step = step_of(line);
  const std::int64_t now = *record.t_ns;
  const auto [span, is_new] = spans_.try_emplace(step, now, now);
  span->second = {std::min(span->second.first, now), std::max(span->second.second, now)};
  if (durations_.size() <= action.stage.index()) durations_.resize(action.stage.index() + 1);

  if (record.event == LogRecord::Event::enter) {
    if (open_.size() < most_open) open_[{step, action}] = now;
    if (action.phase != Phase::weight_gradient) hand_over(step, action, std::nullopt, now);
    return;
  }
  const auto entered = open_.find({step, action});
  if (entered != open_.end()) {
    ++actions_;
    durations_[action.stage.index()][static_cast<std::size_t>(action.phase)].add(
        std::max<std::int64_t>(0, now - entered->second));
    open_.erase(entered);
  }
  const bool forward = action.phase == Phase::forward;
  if (action.phase == Phase::weight_gradient || (!forward && action.stage.value == 0)) return;
  Action receiving = action;
  receiving.stage = forward ? action.stage.next() : action.stage.previous();
  hand_over(step, receiving, now, std::nullopt);
}

void LogTimes::hand_over(std::int64_t step, const Action& receiving,
                         std::optional<std::int64_t> sent, std::optional<std::int64_t> started) {
  const Key key{step, receiving};
  const auto found = transfers_.find(key);
  if (found == transfers_.end()) {
    if (transfers_.size() < most_open) transfers_[key] = {sent, started};
    return;
  }
  Transfer& transfer = found->second;
  if (sent) transfer.sent = sent;
  if (started) transfer.started = started;
  if (!transfer.sent || !transfer.started) return;
  measure_link(receiving, *transfer.started - *transfer.sent);
  transfers_.erase(found);
}

void LogTimes::measure_link(const Action& receiving, std::int64_t gap) {
  if (gap < 0) clocks_agree_ = false;
  const std::size_t edge = receiving.stage.index() - (receiving.phase == Phase::forward ? 1U : 0U);
  if (links_.size() <= edge) links_.resize(edge + 1);
  auto& shortest = links_[edge];
  shortest = std::min(shortest.value_or(gap), gap);
}

MeasuredTimes LogTimes::times() const {
  MeasuredTimes times;
  const auto list_of = [this](Phase phase) {
    std::vector<Time> list;
    for (const auto& of_stage : durations_) {
      const Durations& durations = of_stage[static_cast<std::size_t>(phase)];
      if (durations.empty()) return std::vector<Time>();  // a list is whole or not there
      list.push_back(Time::from_millionths(durations.median()));
    }
    return list;
  };
  times.forward = list_of(Phase::forward);
  times.backward = list_of(Phase::backward);
  times.input_gradient = list_of(Phase::input_gradient);
  times.weight_gradient = list_of(Phase::weight_gradient);
  if (!clocks_agree_) return times;
  const bool all_edges =
      links_.size() + 1 == durations_.size() &&
      std::all_of(links_.begin(), links_.end(), [](const auto& gap) { return gap.has_value(); });
  if (all_edges) {
    for (const auto& gap : links_) times.link.push_back(Time::from_millionths(*gap));
  }
  std::vector<std::int64_t> steps;
  steps.reserve(spans_.size());
  for (const auto& [step, span] : spans_) steps.push_back(span.second - span.first);
  if (!steps.empty()) times.step = Time::from_millionths(median_of(std::move(steps)));
  return times;
}

}  // namespace sluice
