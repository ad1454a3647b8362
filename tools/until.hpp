// --until: where a replay stops or hands over, as a user names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <sluice/ids.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/replay_point.hpp>

namespace sluice::tools {

struct Until {
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> seq;
  std::optional<std::int64_t> stage;
  std::optional<std::int64_t> mb;
  std::optional<Phase> phase;
};

/// `[step=N,]seq=N`, `step=N,mb=N,stage=N,phase=P` in any order, or `step=N`: where that step begins.
/// Throws UsageError.
Until parse_until(std::string_view text);

/// Throws UsageError when the recording does not come there.
replay::ReplayPoint point_in(const replay::Recording& recording, const Until& until);

}  // namespace sluice::tools
