#include <sluice/suspicions.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

#include <sluice/progress.hpp>

namespace sluice {
namespace {

auto action_of(const Suspicion& suspicion) {
  return std::make_tuple(suspicion.stage, suspicion.mb, detail::kind_of_event(suspicion.event));
}

}  // namespace

std::optional<Suspicion> Suspicions::settle(StageId stage, MicrobatchId mb, std::uint32_t event) {
  const auto waits = [&](const Suspicion& each) {
    return each.stage == stage && each.mb == mb && each.event == event;
  };
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), waits);
  if (found == waiting_.end()) return std::nullopt;
  const Suspicion first = *found;
  std::erase_if(waiting_, waits);
  return first;
}

std::vector<std::vector<Suspicion>> Suspicions::settle_all() {
  std::sort(waiting_.begin(), waiting_.end(), [](const Suspicion& a, const Suspicion& b) {
    return std::make_tuple(action_of(a), a.at.record.seq, a.event) <
           std::make_tuple(action_of(b), b.at.record.seq, b.event);
  });
  std::vector<std::vector<Suspicion>> groups;
  for (const Suspicion& each : std::exchange(waiting_, {})) {
    const bool same = !groups.empty() && action_of(groups.back().front()) == action_of(each);
    if (!same) groups.emplace_back();
    groups.back().push_back(each);
  }
  return groups;
}

}  // namespace sluice
