// One word mixed into a hash: for telling orders apart, not for files.
#pragma once

#include <cstdint>

namespace sluice::replay {

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
  return hash ^ hash >> 29U;
}

}  // namespace sluice::replay
