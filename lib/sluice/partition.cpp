#include <sluice/partition.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <sluice/config_finding.hpp>

namespace sluice {
namespace {

/// The divisors of `layers` that come nearest to `stages`, ascending.
std::vector<int> divisors_near(int layers, int stages) {
  constexpr std::size_t most = 3;
  std::vector<int> divisors;
  for (int each = 1; each <= layers / each; ++each) {
    if (layers % each != 0) continue;
    if (each > 1) divisors.push_back(each);
    if (layers / each != each) divisors.push_back(layers / each);
  }
  std::sort(divisors.begin(), divisors.end(), [stages](int a, int b) {
    return std::pair(std::abs(a - stages), a) < std::pair(std::abs(b - stages), b);
  });
  divisors.resize(std::min(most, divisors.size()));
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

}  // namespace

std::vector<int> even_partition(int layers, int stages) {
  std::vector<int> of_stage(static_cast<std::size_t>(stages), layers / stages);
  std::fill_n(of_stage.begin(), layers % stages, layers / stages + 1);
  return of_stage;
}

std::optional<Finding> check_partition(int layers, std::span<const int> of_stage) {
  const std::int64_t assigned = std::accumulate(of_stage.begin(), of_stage.end(), std::int64_t{0});
  const auto empty =
      std::find_if(of_stage.begin(), of_stage.end(), [](int each) { return each < 1; });
  if (empty != of_stage.end()) {
    const auto stage = empty - of_stage.begin();
    return config_error(
        "partition", "partition", fmt::format("1 or more for stage {}", stage),
        std::to_string(*empty),
        fmt::format(
            "partition = [{}]: expected 1 layer or more for every stage, found {} for stage "
            "{}; move a layer there, or use fewer stages",
            fmt::join(of_stage, ", "), *empty, stage));
  }
  if (assigned == layers) return std::nullopt;
  const std::string what = assigned < layers
                               ? fmt::format("{} are on no stage: layers {} to {}",
                                             layers - assigned, assigned, layers - 1)
                               : fmt::format("{} of them do not exist", assigned - layers);
  return config_error(
      "partition", "partition", std::to_string(layers), std::to_string(assigned),
      fmt::format("partition = [{}]: expected layers = {} in all, found {}; {}; an even split is "
                  "partition = [{}]",
                  fmt::join(of_stage, ", "), layers, assigned, what,
                  fmt::join(even_partition(layers, static_cast<int>(of_stage.size())), ", ")));
}

std::optional<Finding> check_even_partition(int layers, int stages) {
  if (layers % stages == 0) return std::nullopt;
  const int more = layers % stages;
  return config_error(
      "partition", "layers", fmt::format("a multiple of {}", stages), std::to_string(layers),
      fmt::format(
          "layers = {}: expected a multiple of stages = {}; numbers of stages that fit: {}; "
          "or split unevenly, {} on {} stages and {} on {}",
          layers, stages, fmt::join(divisors_near(layers, stages), ", "), layers / stages + 1, more,
          layers / stages, stages - more));
}

}  // namespace sluice
