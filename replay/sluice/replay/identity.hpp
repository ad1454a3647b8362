// What a replay must have in common with the recorded run, as named values, and where it has not.
//
// Compared before anything runs: a replay elsewhere says what is different there instead of failing in
// the middle. Reading the recording's JSON into a list is up to the caller. Pure functions.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sluice/plan.hpp>
#include <sluice/replay/recording.hpp>

namespace sluice::replay {

/// Names and values, as text.
using Identity = std::vector<std::pair<std::string, std::string>>;

struct IdentityDifference {
  std::string key;
  std::string recorded;  ///< `(absent)` where there is none
  std::string found;
};

/// Every name whose values differ, by name; `allowed` names are left out. An empty list: comparable.
std::vector<IdentityDifference> compare_identities(const Identity& recorded, const Identity& found,
                                                   std::span<const std::string> allowed = {});

/// Where `plan` is not the recorded one: stages, ranks, and each rank's order at its first difference.
std::vector<IdentityDifference> compare_plans(const Recording& recording, const Plan& plan);

/// One line a difference: `isa: recorded avx512_core, here avx2`.
std::string to_string(std::span<const IdentityDifference> differences);

}  // namespace sluice::replay
