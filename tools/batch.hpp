// The rule `batch`: the global batch is micro x microbatches, or nothing runs.
//
// Called while a plan is made. Pure function.
#pragma once

#include <cstdint>
#include <optional>

#include <sluice/finding.hpp>

namespace sluice::tools {

/// An error that shows every factor and the nearest values that fit; nothing when they agree.
/// All three are 1 or more.
std::optional<Finding> check_batch(std::int64_t global, std::int64_t micro, int microbatches);

}  // namespace sluice::tools
