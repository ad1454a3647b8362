// Devices: whether every rank of every replica has one, and none stays over.
//
// Called while a configuration is checked; pure function, any executor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sluice/finding.hpp>
#include <sluice/ids.hpp>

namespace sluice {

struct Devices {
  std::int64_t count = 1;            ///< all there are
  std::vector<std::int64_t> groups;  ///< what share a node or a switch; empty: not said
};

/// `devices`: an error when ranks x replicas is not the count, or the groups are not the count either.
/// Replica after replica takes the next devices, each rank one: the error names the stage that would
/// stay empty, or the group that would be used in part.
std::optional<Finding> check_devices(const Devices& devices, std::int64_t replicas,
                                     std::span<const RankId> rank_of);

}  // namespace sluice
