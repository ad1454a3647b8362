#include <sluice/replay/identity.hpp>

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include <sluice/replay/recording_format.hpp>

namespace sluice::replay {
namespace {

constexpr const char* absent = "(absent)";

std::string at(std::span<const Action> order, std::size_t position) {
  if (position >= order.size()) return fmt::format("{} actions", order.size());
  return fmt::format("{} at position {}", to_string(order[position]), position);
}

}  // namespace

std::vector<IdentityDifference> compare_identities(const Identity& recorded, const Identity& found,
                                                   std::span<const std::string> allowed) {
  std::map<std::string, IdentityDifference> both;
  for (const auto& [key, value] : recorded) both[key] = {key, value, absent};
  for (const auto& [key, value] : found) {
    auto& entry = both.try_emplace(key, IdentityDifference{key, absent, absent}).first->second;
    entry.found = value;
  }
  std::vector<IdentityDifference> differences;
  for (const auto& [key, entry] : both) {
    const bool excused = std::find(allowed.begin(), allowed.end(), key) != allowed.end();
    if (entry.recorded != entry.found && !excused) differences.push_back(entry);
  }
  return differences;
}

std::vector<IdentityDifference> compare_plans(const Recording& recording, const Plan& plan) {
  const RecordingHeader& header = recording.header();
  std::vector<IdentityDifference> differences;
  const auto compare = [&](const char* key, int recorded, int found) {
    if (recorded == found) return;
    differences.push_back({key, fmt::format("{}", recorded), fmt::format("{}", found)});
  };
  compare("stages", header.stages, plan.stages);
  compare("ranks", header.ranks, plan.ranks);
  if (!differences.empty()) return differences;
  const auto slots = [](const std::optional<int>& given) {
    return given ? fmt::format("{}", *given) : std::string("as many as it takes");
  };
  const bool told = header.minor_version >= format::minor_version_with_slots;
  if (told && header.slots != plan.slots) {
    differences.push_back({"slots", slots(header.slots), slots(plan.slots)});
  }

  for (RankId rank(0); rank.value < plan.ranks; rank = rank.next()) {
    const auto recorded = recording.order(rank);
    const auto& found = plan.order[rank.index()];
    if (recorded.empty() || recorded == found) continue;  // empty: the recording ends before it
    const auto differs =
        std::mismatch(recorded.begin(), recorded.end(), found.begin(), found.end());
    const auto position = static_cast<std::size_t>(differs.first - recorded.begin());
    differences.push_back(
        {fmt::format("order of rank {}", rank.value), at(recorded, position), at(found, position)});
  }
  return differences;
}

std::string to_string(std::span<const IdentityDifference> differences) {
  std::string text;
  for (const auto& difference : differences) {
    text += fmt::format("{}: recorded {}, here {}\n", difference.key, difference.recorded,
                        difference.found);
  }
  return text;
}

}  // namespace sluice::replay
