// What a step came to, for whoever awaited it.
//
// A plain value, handed to the completion handler; usable on any executor.
#pragma once

#include <cstdint>
#include <vector>

#include <sluice/stage.hpp>

namespace sluice {

struct StepResult {
  std::int64_t step = 0;
  double loss = 0;              ///< mean over the samples of the global batch
  std::int64_t samples = 0;     ///< in this pass
  std::vector<Figure> figures;  ///< whatever else the last stage reported, in the order first named
};

}  // namespace sluice
