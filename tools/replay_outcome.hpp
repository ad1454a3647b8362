// What sluice replay says: of a whole replay, of one of the order alone, and of a refusal.
//
// Each writes its result, as text or as one JSON object.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/replay/identity.hpp>
#include <sluice/replay/investigation.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/replay_point.hpp>
#include <sluice/replay/replayer.hpp>
#include <sluice/replay/schedule_replay.hpp>

#include "replay_run.hpp"

namespace sluice::tools {

/// What was asked for, as far as the report has to know.
struct ReplayAsked {
  std::string recording;                     ///< as the user named it
  std::vector<std::string> allow;            ///< --allow
  std::optional<int> rank;                   ///< --rank: tell how this one stood
  std::optional<replay::ReplayPoint> until;  ///< --until
  replay::HandOver then = replay::HandOver::stop;
  bool json = false;
};

/// `investigation`: of its divergence, when it has one; `differences`: those of the identities.
void tell(const ReplayAsked& asked, const replay::Recording& recording, const ReplayedRun& replayed,
          const std::optional<replay::Investigation>& investigation,
          std::span<const replay::IdentityDifference> differences);

void tell(const ReplayAsked& asked, const replay::Recording& recording,
          const replay::ScheduleReplay& replayed);

/// Throws Refused, with what differs and what can be done about it.
[[noreturn]] void refuse(const ReplayAsked& asked,
                         std::span<const replay::IdentityDifference> differences);

}  // namespace sluice::tools
