#include <sluice/law.hpp>

#include <algorithm>

namespace sluice::law {

std::vector<int> credits(int stages, int drain_depth) {
  std::vector<int> result;
  result.reserve(static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s) {
    result.push_back(1 + std::min(drain_depth, std::max(drain_depth, stages - 1) - s));
  }
  return result;
}

int gate(int microbatches, std::span<const int> credits) {
  return std::min(microbatches, *std::min_element(credits.begin(), credits.end()));
}

}  // namespace sluice::law
