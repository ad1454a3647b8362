#include <sluice/log.hpp>

#include <functional>
#include <iterator>
#include <queue>
#include <utility>

#include <fmt/format.h>

namespace sluice {

std::string to_line(const LogRecord& record) {
  std::string line =
      fmt::format("seq={:04} mb={} stage={} phase={} event={}", record.seq, record.action.mb.value,
                  record.action.stage.value, letter(record.action.phase),
                  record.event == LogRecord::Event::enter ? "enter" : "exit");
  const auto out = std::back_inserter(line);
  if (record.step) fmt::format_to(out, " step={}", *record.step);
  if (record.rank) fmt::format_to(out, " rank={}", record.rank->value);
  if (record.t_ns) fmt::format_to(out, " t={}", *record.t_ns);
  return line;
}

std::vector<LogRecord> expected_log(const Timeline& timeline) {
  std::vector<LogRecord> log;
  log.reserve(2 * timeline.actions.size());
  const auto write = [&log](const Action& action, LogRecord::Event event) {
    LogRecord& record = log.emplace_back();
    record.seq = static_cast<std::int64_t>(log.size());
    record.action = action;
    record.event = event;
  };

  // Actions that have started, by end, then by position in the timeline: one a rank at most.
  using Open = std::pair<Time, std::size_t>;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
  const auto close_until = [&](Time now) {
    while (!open.empty() && open.top().first <= now) {
      write(timeline.actions[open.top().second].action, LogRecord::Event::exit);
      open.pop();
    }
  };
  for (std::size_t i = 0; i < timeline.actions.size(); ++i) {
    close_until(timeline.actions[i].start);
    write(timeline.actions[i].action, LogRecord::Event::enter);
    open.emplace(timeline.actions[i].end, i);
  }
  close_until(timeline.makespan);
  return log;
}

}  // namespace sluice
