#include "config_batch.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace sluice::tools {
namespace {

constexpr std::int64_t most = std::numeric_limits<int>::max();

}  // namespace

BatchSection read_batch(Document& document) {
  Section section = document.section("batch");
  BatchSection batch;
  batch.global = section.whole("global", 1, most);
  batch.micro = section.whole("micro", 1, most);
  batch.accumulation = section.whole("accumulation", 1, most);
  batch.replicas = section.whole("replicas", 1, most);
  batch.ragged = section.flag("ragged").value_or(false);
  batch.ramp = section.wholes("ramp", 1, most).value_or(batch.ramp);
  section.finish();
  return batch;
}

std::optional<Devices> read_devices(Document& document) {
  Section section = document.section("devices");
  const auto count = section.whole("count", 1, most);
  const auto groups = section.wholes("groups", 1, most);
  section.finish();
  if (!count && !groups) return std::nullopt;
  Devices devices;
  if (groups) devices.groups = *groups;
  devices.count = 0;
  for (const std::int64_t group : devices.groups) devices.count += group;
  if (count) devices.count = *count;
  return devices;
}

std::int64_t replicas_of(const BatchSection& section, const std::optional<Devices>& devices,
                         const PlanConfig& plan) {
  if (section.replicas) return *section.replicas;
  const int chunks = std::max(1, plan.chunks.value_or(default_chunks(plan.schedule)));
  const std::int64_t ranks =
      plan.custom ? static_cast<std::int64_t>(plan.custom->order.size()) : plan.stages / chunks;
  if (!devices || ranks < 1 || devices->count % ranks != 0) return 1;
  return devices->count / ranks;
}

std::optional<BatchShape> shape_of(const BatchSection& section, std::int64_t replicas) {
  if (!section.global || !section.micro) return std::nullopt;
  BatchShape shape;
  shape.global = *section.global;
  shape.micro = *section.micro;
  shape.accumulation = section.accumulation.value_or(1);
  shape.replicas = replicas;
  shape.ragged = section.ragged;
  return shape;
}

std::optional<BatchConfig> batch_of(const BatchSection& section, std::int64_t replicas,
                                    int microbatches) {
  if (!section.global && !section.micro) return std::nullopt;
  BatchConfig batch;
  batch.accumulation = section.accumulation.value_or(1);
  batch.replicas = replicas;
  batch.ragged = section.ragged;
  batch.ramp = section.ramp;
  batch.micro = section.micro.value_or(1);
  const std::int64_t portions = whole_batch(batch, std::max(1, microbatches));
  if (!section.micro) batch.micro = std::max<std::int64_t>(1, *section.global / portions);
  batch.global = section.global.value_or(portions);
  return batch;
}

void price_short_microbatch(const BatchConfig& batch, int microbatches, Costs& costs) {
  constexpr int most_microbatches = 1 << 25;  // more are refused with the shape
  if (!batch.ragged || !costs.sizes.empty() || microbatches > most_microbatches) return;
  if (check_batch(batch, microbatches)) return;
  const std::int64_t last = samples_of(batch, microbatches).back();
  if (last == batch.micro) return;
  // In the largest portions that both are made of: the less is rounded.
  const std::int64_t portion = std::gcd(batch.micro, last);
  costs.sizes.assign(static_cast<std::size_t>(microbatches), batch.micro / portion);
  costs.sizes.back() = last / portion;
  if (costs.forward.empty()) costs.forward = {Time::from_units(1)};
  if (costs.backward.empty()) costs.backward = {Time::from_units(1)};
  for (auto* list :
       {&costs.forward, &costs.backward, &costs.input_gradient, &costs.weight_gradient}) {
    for (Time& time : *list) {
      time = Time::from_units(time.units() / static_cast<double>(costs.sizes.front()));
    }
  }
}

}  // namespace sluice::tools
