// The rule `batch`: the global batch is micro x microbatches, or nothing runs.
//
// Called while a plan is made. Pure function.
#pragma once

#include <cstdint>
#include <vector>

#include <sluice/finding.hpp>

namespace sluice::tools {

/// An error that shows every factor and the nearest values that fit; nothing when they agree, or when
/// there are no microbatches, which is another rule's finding. Requires global and micro >= 1.
std::vector<Finding> check_batch(std::int64_t global, std::int64_t micro, int microbatches);

}  // namespace sluice::tools
