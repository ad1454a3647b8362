#include <sluice/log_merge.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

/// The end of an action, for whoever waits for it. Both halves of a backward's first part are one.
using End = std::tuple<std::int64_t, StageId, MicrobatchId, bool>;

bool is_forward(Phase phase) { return phase == Phase::forward; }

End end_of(const LogLine& line) {
  const LogRecord& record = line.record;
  return {record.step.value_or(0), record.action.stage, record.action.mb,
          is_forward(record.action.phase)};
}

class Merge {
 public:
  explicit Merge(const std::vector<LogLane>& lanes) : lanes_(&lanes), next_(lanes.size(), 0) {
    for (const LogLane& lane : lanes) {
      for (const LogLine& line : lane) {
        last_stage_ = std::max(last_stage_, line.record.action.stage);
        if (is_end(line)) ++ends_[end_of(line)];
      }
    }
  }

  std::vector<LogLine> run() {
    std::vector<LogLine> merged;
    while (true) {
      bool moved = false;
      std::optional<std::size_t> stuck;
      for (std::size_t i = 0; i < next_.size(); ++i) {
        while (next_[i] < lane(i).size() && ready(lane(i)[next_[i]])) {
          take(i, merged);
          moved = true;
        }
        if (!stuck && next_[i] < lane(i).size()) stuck = i;
      }
      if (!stuck) return merged;
      if (!moved) take(*stuck, merged);
    }
  }

 private:
  static bool is_end(const LogLine& line) {
    return line.record.event == LogRecord::Event::exit &&
           line.record.action.phase != Phase::weight_gradient;
  }

  const LogLane& lane(std::size_t i) const { return (*lanes_)[i]; }

  /// Whether what the record waits for has come, or will never.
  bool ready(const LogLine& line) const {
    const Action& action = line.record.action;
    if (line.record.event == LogRecord::Event::exit) return true;
    End cause = end_of(line);
    if (action.phase == Phase::forward) {
      if (action.stage == StageId(0)) return true;
      std::get<1>(cause) = action.stage.previous();
    } else {
      if (action.phase == Phase::weight_gradient || action.stage == last_stage_) return true;
      std::get<1>(cause) = action.stage.next();
    }
    return ends_.count(cause) == 0;
  }

  void take(std::size_t i, std::vector<LogLine>& merged) {
    merged.push_back(lane(i)[next_[i]++]);
    LogLine& line = merged.back();
    line.record.seq = static_cast<std::int64_t>(merged.size());
    if (!is_end(line)) return;
    const auto found = ends_.find(end_of(line));
    if (--found->second == 0) ends_.erase(found);
  }

  const std::vector<LogLane>* lanes_;
  std::vector<std::size_t> next_;
  std::map<End, int> ends_;  // still to come
  StageId last_stage_;
};

}  // namespace

std::vector<LogLine> order_by_cause(const std::vector<LogLane>& lanes) {
  return Merge(lanes).run();
}

std::vector<LogLane> lanes_of(const std::vector<LogLine>& lines) {
  std::map<std::pair<bool, std::int32_t>, LogLane> by_lane;
  for (const LogLine& line : lines) {
    const auto& rank = line.record.rank;
    by_lane[{rank.has_value(), rank ? rank->value : line.record.action.stage.value}].push_back(
        line);
  }
  std::vector<LogLane> lanes;
  for (auto& [key, lane] : by_lane) {
    const bool timed = std::all_of(
        lane.begin(), lane.end(), [](const LogLine& line) { return line.record.t_ns.has_value(); });
    if (timed) {
      std::sort(lane.begin(), lane.end(), [](const LogLine& a, const LogLine& b) {
        return std::tie(a.record.t_ns, a.source, a.line) <
               std::tie(b.record.t_ns, b.source, b.line);
      });
    }
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

}  // namespace sluice
