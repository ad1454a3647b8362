// The events of a recording as lines of the text log, and which of them someone asked for.
//
// Pure functions of a recording, for sluice show.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sluice/event.hpp>
#include <sluice/ids.hpp>
#include <sluice/replay/recording.hpp>

namespace sluice::tools {

/// What to look at; what is absent does not restrict.
struct Selection {
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> first_seq;
  std::optional<std::int64_t> last_seq;
  std::optional<MicrobatchId> mb;
  std::optional<StageId> stage;
  std::optional<RankId> rank;

  bool of_events() const { return first_seq || mb || stage || rank; }
};

struct NumberedEvent {
  std::int64_t seq = 0;
  Event event;
};

/// The events of one step that have a line in the text log, in its order, those that are selected.
std::vector<NumberedEvent> events_of(const replay::RecordedStep& step, const Selection& selection);

/// As it stands in the text log.
std::string line_of(const NumberedEvent& numbered);

/// An action that a rank started although another one was next in its planned order.
struct UnplannedPick {
  std::int64_t seq = 0;
  RankId rank;
  Action action;
  Action planned;
};

std::vector<UnplannedPick> unplanned_picks(const replay::Recording& recording,
                                           const replay::RecordedStep& step);

}  // namespace sluice::tools
