#include <sluice/replay/replay_point.hpp>

#include <stdexcept>

#include <fmt/format.h>

#include <sluice/replay/causal_order.hpp>

namespace sluice::replay {
namespace {

std::int64_t lines_of(const RecordedStep& step) {
  std::int64_t lines = 0;
  for (const auto& events : step.ranks) {
    for (const Event& event : events) lines += is_logged(event) ? 1 : 0;
  }
  return lines;
}

std::size_t index_of(const Recording& recording, std::int64_t step) {
  const std::int64_t first = recording.first_step();
  const auto count = static_cast<std::int64_t>(recording.steps());
  if (step < first || step >= first + count) {
    throw std::invalid_argument(
        count == 0 ? fmt::format("step {}: {} holds no step", step, recording.file())
                   : fmt::format("step {}: expected {} to {}, the steps of {}", step, first,
                                 first + count - 1, recording.file()));
  }
  return static_cast<std::size_t>(step - first);
}

ReplayPoint point_at(const Event& event, std::int64_t seq) {
  ReplayPoint point;
  point.step = event.step;
  point.seq = seq;
  point.rank = event.rank;
  point.action = event.action;
  point.ends = event.kind == Event::Kind::exit;
  return point;
}

}  // namespace

ReplayPoint point_of(const Recording& recording, std::optional<std::int64_t> step,
                     std::int64_t seq) {
  const std::size_t first = step ? index_of(recording, *step) : 0;
  const std::size_t end = step ? first + 1 : recording.steps();
  // Where each step's lines begin is in the index; only the one that can hold `seq` is decoded.
  for (std::size_t k = first; k < end; ++k) {
    if (k + 1 < end && recording.first_seq(k + 1) <= seq) continue;
    const RecordedStep recorded = recording.step(k);
    std::int64_t next = recorded.first_seq;
    for (const Event& event : merge_events(recorded.ranks)) {
      if (is_logged(event) && next++ == seq) return point_at(event, seq);
    }
    break;
  }
  if (first == end) throw std::invalid_argument(recording.file() + " holds no step");
  const RecordedStep last = recording.step(end - 1);
  throw std::invalid_argument(
      fmt::format("seq {}: expected {} to {}, the lines of {}{}", seq, recording.first_seq(first),
                  last.first_seq + lines_of(last) - 1,
                  step ? fmt::format("step {} in ", *step) : std::string(), recording.file()));
}

ReplayPoint point_of(const Recording& recording, std::int64_t step, const Action& action) {
  const RecordedStep recorded = recording.step(index_of(recording, step));
  std::int64_t seq = recorded.first_seq;
  std::string others;
  for (const Event& event : merge_events(recorded.ranks)) {
    if (!is_logged(event)) continue;
    const bool enters = event.kind == Event::Kind::enter;
    if (enters && event.action == action) return point_at(event, seq);
    if (enters && event.action.stage == action.stage && event.action.mb == action.mb) {
      others += fmt::format(" {}", sluice::to_string(event.action));
    }
    ++seq;
  }
  throw std::invalid_argument(fmt::format(
      "{} did not start in step {} of {}; of that stage and microbatch there is:{}",
      sluice::to_string(action), step, recording.file(), others.empty() ? " nothing" : others));
}

std::vector<std::size_t> events_before(const RecordedStep& step, const ReplayPoint& point) {
  std::vector<std::size_t> before(step.ranks.size(), 0);
  std::int64_t seq = step.first_seq;
  for (const Event& event : merge_events(step.ranks)) {
    if (is_logged(event) && seq++ == point.seq) break;
    ++before[event.rank.index()];
  }
  return before;
}

std::string to_string(const ReplayPoint& point) {
  return fmt::format("step {}, stage {}, mb {}, {}, seq {}", point.step, point.action.stage.value,
                     point.action.mb.value, letter(point.action.phase), point.seq);
}

std::string stopped_before(const ReplayPoint& point) {
  return fmt::format("the replay has stopped before {}, as it was told", to_string(point));
}

}  // namespace sluice::replay
