#include <sluice/devices.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <sluice/config_finding.hpp>

namespace sluice {
namespace {

/// ` ; 2 of the 4 in group 1 would be used` when `device`, the first that stays idle, is inside one.
std::string split_group(const std::vector<std::int64_t>& groups, std::int64_t device) {
  std::int64_t first = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (device > first && device < first + groups[g]) {
      return fmt::format("; {} of the {} in group {} would be used", device - first, groups[g], g);
    }
    first += groups[g];
  }
  return "";
}

}  // namespace

std::optional<Finding> check_devices(const Devices& devices, std::int64_t replicas,
                                     std::span<const RankId> rank_of) {
  const std::int64_t count = devices.count;
  if (!devices.groups.empty()) {
    const std::int64_t in_groups =
        std::accumulate(devices.groups.begin(), devices.groups.end(), std::int64_t{0});
    if (in_groups != count) {
      const std::string list = fmt::format("[{}]", fmt::join(devices.groups, ", "));
      return config_error("devices", "groups", fmt::format("{} devices in all", count), list,
                          fmt::format("groups = {}: expected {} devices in all, as count says, "
                                      "found {}; correct the one or "
                                      "the other",
                                      list, count, in_groups));
    }
  }
  const std::int64_t ranks = 1 + std::max_element(rank_of.begin(), rank_of.end())->value;
  // Both below 2^31: no overflow.
  const std::int64_t wanted = ranks * replicas;
  if (wanted == count) return std::nullopt;
  std::string consequence;
  StageId empty;
  if (count < wanted) {
    const RankId rank(count % ranks);
    empty = StageId(std::find(rank_of.begin(), rank_of.end(), rank) - rank_of.begin());
    consequence =
        fmt::format("stage {} of replica {} would stay empty", empty.value, count / ranks);
  } else {
    consequence =
        fmt::format("{} would stay idle{}", count - wanted, split_group(devices.groups, wanted));
  }
  std::string change = fmt::format("set count = {}", wanted);
  if (count % ranks == 0) {
    change += fmt::format(", or replicas = {}", count / ranks);
  } else {
    change += fmt::format(", or stages so that ranks times replicas = {} is {}", replicas, count);
  }
  Finding finding = config_error(
      "devices", "count", std::to_string(wanted), std::to_string(count),
      fmt::format("count = {}: expected ranks = {} times replicas = {}, which makes {}: {}; {}",
                  count, ranks, replicas, wanted, consequence, change));
  if (count < wanted) finding.stage = empty;
  return finding;
}

}  // namespace sluice
