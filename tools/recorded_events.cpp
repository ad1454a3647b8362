#include "recorded_events.hpp"

#include <sluice/log.hpp>
#include <sluice/replay/causal_order.hpp>
#include <sluice/replay/planned_order.hpp>

namespace sluice::tools {

std::vector<NumberedEvent> events_of(const replay::RecordedStep& step, const Selection& selection) {
  std::vector<NumberedEvent> selected;
  std::int64_t seq = step.first_seq;
  for (const Event& event : merge_events(step.ranks)) {
    if (!replay::is_logged(event)) continue;
    const NumberedEvent numbered{seq++, event};
    if (selection.step && *selection.step != step.number) continue;
    if (selection.first_seq && numbered.seq < *selection.first_seq) continue;
    if (selection.last_seq && numbered.seq > *selection.last_seq) continue;
    if (selection.mb && *selection.mb != event.action.mb) continue;
    if (selection.stage && *selection.stage != event.action.stage) continue;
    if (selection.rank && *selection.rank != event.rank) continue;
    selected.push_back(numbered);
  }
  return selected;
}

std::string line_of(const NumberedEvent& numbered) {
  LogRecord record;
  record.seq = numbered.seq;
  record.action = numbered.event.action;
  record.event =
      numbered.event.kind == Event::Kind::enter ? LogRecord::Event::enter : LogRecord::Event::exit;
  record.step = numbered.event.step;
  record.rank = numbered.event.rank;
  return to_line(record);
}

std::vector<UnplannedPick> unplanned_picks(const replay::Recording& recording,
                                           const replay::RecordedStep& step) {
  std::vector<replay::PlannedOrder> orders;
  orders.reserve(static_cast<std::size_t>(recording.header().ranks));
  for (int r = 0; r < recording.header().ranks; ++r) {
    const auto index = static_cast<std::size_t>(step.number - recording.first_step());
    orders.emplace_back(recording.order(RankId(r), index));
  }
  std::vector<replay::PlannedCursor> cursors(orders.begin(), orders.end());
  std::vector<UnplannedPick> picks;
  for (const NumberedEvent& numbered : events_of(step, {})) {
    const Event& event = numbered.event;
    if (event.kind != Event::Kind::enter) continue;
    replay::PlannedCursor& cursor = cursors[event.rank.index()];
    const Action* planned = cursor.next();
    if (planned != nullptr && *planned != event.action) {
      picks.push_back({numbered.seq, event.rank, event.action, *planned});
    }
    cursor.start(event.action);
  }
  return picks;
}

}  // namespace sluice::tools
