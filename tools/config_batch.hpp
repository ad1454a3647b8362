// [batch] and [devices]: what M and the number of replicas follow from, when nobody says them.
//
// Used by config.cpp alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config.hpp"
#include "document.hpp"

namespace sluice::tools {

/// [batch] as it stands in the file: what is absent follows from the rest.
struct BatchSection {
  std::optional<std::int64_t> global;
  std::optional<std::int64_t> micro;
  std::optional<std::int64_t> accumulation;
  std::optional<std::int64_t> replicas;
  bool ragged = false;
  std::vector<std::int64_t> ramp;
};

BatchSection read_batch(Document& document);
std::optional<Devices> read_devices(Document& document);

/// As given, or what the devices are enough for, else 1.
std::int64_t replicas_of(const BatchSection& section, const std::optional<Devices>& devices,
                         const PlanConfig& plan);

/// The batch as a whole when global and micro are given, so that M follows; else nothing.
std::optional<BatchShape> shape_of(const BatchSection& section, std::int64_t replicas);

/// Everything, with the M that is known by now; nothing when nothing of it is given.
std::optional<BatchConfig> batch_of(const BatchSection& section, std::int64_t replicas,
                                    int microbatches);

/// Where the last microbatch is short: the costs, which are those of a whole one, by sample, and how
/// many each has. Costs that already are by sample stay as they are.
void price_short_microbatch(const BatchConfig& batch, int microbatches, Costs& costs);

}  // namespace sluice::tools
