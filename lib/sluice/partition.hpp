// Partition: how many consecutive layers each stage has.
//
// A layer that no stage has is not trained, and nobody notices; so a partition is checked against the
// model's own number of layers. Pure functions; any executor.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <sluice/finding.hpp>

namespace sluice {

/// As even as it goes, the larger ones first: 46 over 4 is 12, 12, 11, 11. Requires both >= 1.
std::vector<int> even_partition(int layers, int stages);

/// `partition`: an error when the stages have not exactly the model's layers, or one has none.
std::optional<Finding> check_partition(int layers, std::span<const int> of_stage);

/// `partition`: an error when `layers` do not split evenly, with the numbers of stages that would, and
/// what an uneven split looks like.
std::optional<Finding> check_even_partition(int layers, int stages);

}  // namespace sluice
