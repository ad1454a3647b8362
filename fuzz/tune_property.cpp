// Tune is never worse than what one would find by trying everything by hand, and never better than
// its bound allows.
#include <algorithm>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include <sluice/fuzz/property.hpp>
#include <sluice/fuzz/shapes.hpp>
#include <sluice/tune.hpp>

namespace sluice {
namespace {

/// Small enough to try everything.
TuneRequest gen_request() {
  TuneRequest request;
  request.ranks = *rc::gen::inRange(1, 4);
  request.layers = request.ranks + *rc::gen::inRange(0, 4);
  request.microbatches = *rc::gen::inRange(1, 7);
  request.choices = {request.microbatches};
  if (*rc::gen::arbitrary<bool>()) request.choices.push_back(2 * request.microbatches);
  for (int layer = 0; layer < request.layers; ++layer) {
    request.costs.forward.push_back(*fuzz::gen_time(Time()));
    request.costs.backward.push_back(*fuzz::gen_time(Time()));
    request.memory.per_microbatch.push_back(*rc::gen::inRange(1, 10));
  }
  request.costs.link = {*fuzz::gen_time(Time())};
  request.costs.overhead = *fuzz::gen_time(Time());
  if (*rc::gen::arbitrary<bool>()) request.memory.cap = *rc::gen::inRange(1, 150);
  return request;
}

std::vector<std::vector<int>> all_partitions(int layers, int stages) {
  if (stages == 1) return {{layers}};
  std::vector<std::vector<int>> all;
  for (int first = 1; layers - first >= stages - 1; ++first) {
    for (auto& rest : all_partitions(layers - first, stages - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

PlanConfig config_of(const TuneRequest& request, int microbatches,
                     const std::vector<int>& partition) {
  PlanConfig config;
  config.stages = static_cast<int>(partition.size());
  config.microbatches = microbatches;
  config.costs.link = request.costs.link;
  config.costs.overhead = request.costs.overhead;
  config.memory.cap = request.memory.cap;
  config.detail = Detail::metrics;
  std::size_t layer = 0;
  for (const int count : partition) {
    Time forward, backward;
    std::int64_t held = 0;
    for (int i = 0; i < count; ++i, ++layer) {
      forward += request.costs.forward[layer];
      backward += request.costs.backward[layer];
      held += request.memory.per_microbatch[layer];
    }
    const int shrink = microbatches / request.microbatches;
    config.costs.forward.push_back(Time::from_millionths(forward.millionths / shrink));
    config.costs.backward.push_back(Time::from_millionths(backward.millionths / shrink));
    config.memory.per_microbatch.push_back((held + shrink - 1) / shrink);
  }
  return config;
}

/// The makespan; nothing when it cannot run, or does not fit.
std::optional<Time> makespan_of(const PlanConfig& config) {
  try {
    return derive_plan(config).timeline.makespan;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

/// By hand: every named schedule, every W, every partition, every M.
std::optional<Time> best_by_hand(const TuneRequest& request) {
  std::optional<Time> best;
  const auto take = [&best](const PlanConfig& config) {
    const auto makespan = makespan_of(config);
    if (makespan && (!best || *makespan < *best)) best = makespan;
  };
  for (const int microbatches : request.choices) {
    for (int chunks = 1; chunks * request.ranks <= request.layers && chunks <= 4; ++chunks) {
      if (chunks > 1 && request.ranks == 1) break;
      for (const auto& partition : all_partitions(request.layers, chunks * request.ranks)) {
        PlanConfig config = config_of(request, microbatches, partition);
        for (int name = 1; name < static_cast<int>(ScheduleName::custom); ++name) {
          config.schedule = static_cast<ScheduleName>(name);
          config.chunks = chunks;
          // One stage a rank, or as many as one likes.
          const bool looped = config.schedule == ScheduleName::zb_h1;
          if (chunks > 1 && default_chunks(config.schedule) == 1 && !looped) continue;
          if (chunks == 1 && default_chunks(config.schedule) > 1) continue;
          take(config);
        }
        if (chunks > 1) continue;
        config.schedule = ScheduleName::drain;
        config.chunks.reset();
        for (int depth = 0; depth <= microbatches + request.ranks - 2; ++depth) {
          config.drain_depth = depth;
          take(config);
        }
      }
    }
  }
  return best;
}

SLUICE_PROPERTY(Tune, IsNeverWorseThanTryingEverythingAndNeverBeatsTheBound) {
  const TuneRequest request = gen_request();
  const Tuning tuning = tune(request);
  const auto by_hand = best_by_hand(request);
  RC_ASSERT(tuning.complete);
  RC_ASSERT(by_hand.has_value() <= !tuning.best.empty());
  if (by_hand) {
    RC_ASSERT(tuning.best.front().makespan <= *by_hand);
    RC_ASSERT(tuning.lower_bound <= *by_hand);
  }
  for (const Tuned& tuned : tuning.best) {
    RC_ASSERT(tuned.makespan >= tuning.lower_bound);
    RC_ASSERT(makespan_of(tuned.config) == tuned.makespan);
  }
}

}  // namespace
}  // namespace sluice
