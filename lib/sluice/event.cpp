#include <sluice/event.hpp>

#include <algorithm>
#include <tuple>

namespace sluice {

std::vector<Event> merge_events(std::span<const std::vector<Event>> ranks) {
  std::vector<Event> merged;
  for (const auto& events : ranks) merged.insert(merged.end(), events.begin(), events.end());
  std::sort(merged.begin(), merged.end(), [](const Event& a, const Event& b) {
    return std::tie(a.lamport, a.rank, a.local) < std::tie(b.lamport, b.rank, b.local);
  });
  return merged;
}

}  // namespace sluice
