// Keyed random numbers: what a stage draws belongs to a layer and a sample, not to a moment. A model with
// dropout ends with the same weights whatever its cut, schedule, order and threads.
#include <sluice/random.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/plain_stage.hpp>
#include <sluice/replay/deterministic_executor.hpp>

namespace sluice {
namespace {

constexpr int layers = 8;
constexpr int steps = 3;
constexpr int microbatches = 6;
constexpr std::int64_t micro_samples = 2;
using Numbers =
    std::vector<double>;  // one a sample between stages, one a layer for a stage's gradient

double initial_weight(int layer) { return 0.5 + 0.125 * layer; }
double sample_input(std::int64_t sample) { return 1.0 / static_cast<double>(3 + sample); }

/// Layers `first` to `end` of y = keep * w * x + noise, each kept or dropped and disturbed by chance; `draw` is
/// asked for the numbers of (path, sample, use).
template <class Draw>
void forward_through(int first, const Numbers& weights, std::int64_t sample, double x,
                     const Draw& draw, std::vector<double>& inputs) {
  for (std::size_t l = 0; l < weights.size(); ++l) {
    const auto path = fmt::format("layers.{}", static_cast<std::size_t>(first) + l);
    inputs.push_back(x);
    const double keep = draw(path, sample, "dropout").uniform() < 0.25F ? 0 : 4.0 / 3;
    x = keep * weights[l] * x + draw(path, sample, "noise").uniform() / 16;
  }
  inputs.push_back(x);
}

/// Adds what this sample contributes to `gradients`; returns the gradient of the first layer's input.
template <class Draw>
double backward_through(int first, const Numbers& weights, std::int64_t sample, double g,
                        const Draw& draw, const std::vector<double>& inputs, Numbers& gradients) {
  for (std::size_t l = weights.size(); l-- > 0;) {
    const auto path = fmt::format("layers.{}", static_cast<std::size_t>(first) + l);
    const double keep = draw(path, sample, "dropout").uniform() < 0.25F ? 0 : 4.0 / 3;
    gradients[l] += g * keep * inputs[l];
    g = g * keep * weights[l];
  }
  return g;
}

/// What an action draws.
struct Drawn {
  KeyedRandom operator()(std::string_view path, std::int64_t sample, std::string_view use) const {
    return at.random(path, sample, use);
  }
  const ActionContext<Numbers>& at;
};

/// Some of the layers. The loss is half the square of the last one's output.
struct DropoutStage {
  Numbers forward(ActionContext<Numbers>& at, Numbers x) {
    auto& kept = inputs[at.action.mb];
    kept.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      forward_through(first, weights, sample(at, i), x[i], Drawn{at}, kept[i]);
      x[i] = kept[i].back();
    }
    return x;
  }
  Gradients<Numbers> backward(ActionContext<Numbers>& at, Numbers g) {
    Numbers input = back(at, std::move(g));
    return {std::move(input), std::move(parts.extract(at.action.mb).mapped())};
  }
  asio::awaitable<Numbers> input_gradient(ActionContext<Numbers>& at, Numbers g) {
    Numbers input = back(at, std::move(g));
    co_return input;
  }
  asio::awaitable<Numbers> weight_gradient(ActionContext<Numbers>& at) {
    auto part = parts.extract(at.action.mb);
    co_return std::move(part.mapped());
  }
  Numbers back(const ActionContext<Numbers>& at, Numbers g) {
    const auto kept = inputs.extract(at.action.mb);
    Numbers& part = parts[at.action.mb];
    part.assign(weights.size(), 0);
    for (std::size_t i = 0; i < g.size(); ++i) {
      g[i] =
          backward_through(first, weights, sample(at, i), g[i], Drawn{at}, kept.mapped()[i], part);
    }
    return g;
  }
  void accumulate(MicrobatchId, const Numbers& part) {
    gradient.resize(weights.size());
    for (std::size_t l = 0; l < part.size(); ++l) gradient[l] += part[l];
  }
  void commit() noexcept {
    for (std::size_t l = 0; l < weights.size(); ++l) weights[l] -= 0.01 * gradient[l];
    gradient.clear();
    std::copy(weights.begin(), weights.end(), all->begin() + first);
  }

  static std::int64_t sample(const ActionContext<Numbers>& at, std::size_t i) {
    return at.action.mb.value * micro_samples + static_cast<std::int64_t>(i);
  }
  Numbers* all;  // weights of the model
  int first;
  Numbers weights;
  std::map<MicrobatchId, std::vector<std::vector<double>>> inputs{};
  std::map<MicrobatchId, Numbers> parts{};
  Numbers gradient{};
};

/// The weights after some steps, whatever pipeline they run through.
Numbers train(const PlanConfig& config, unsigned threads, std::uint64_t seed) {
  Numbers weights;
  for (int l = 0; l < layers; ++l) weights.push_back(initial_weight(l));
  const auto factory = [&weights](const StageContext& at) {
    const auto cut = [&at](int stage) { return layers * stage / at.stages; };
    const int first = cut(at.stage.value);
    return make_stage<Numbers>(
        DropoutStage{&weights, first,
                     Numbers(weights.begin() + first, weights.begin() + cut(at.stage.value + 1))});
  };
  const auto next = [](MicrobatchId mb) {
    MicrobatchData<Numbers> data({}, {}, micro_samples);
    for (int i = 0; i < micro_samples; ++i) {
      data.input.push_back(sample_input(mb.value * micro_samples + i));
    }
    return data;
  };
  replay::DeterministicContext one_thread(replay::seeded_picks(threads));
  asio::thread_pool pool(threads + 1);
  PipelineOptions options;
  options.seed = seed;
  options.executors =
      threads == 0 ? replay::any_order(one_thread) : strand_per_rank(pool.get_executor());
  Pipeline<Numbers> pipeline(derive_plan(config), factory, options);
  for (int step = 0; step < steps; ++step) {
    auto ended = pipeline.async_step(make_batch<Numbers>(microbatches * micro_samples, next),
                                     asio::use_future);
    one_thread.run();
    ended.get();
  }
  pool.join();
  return weights;
}

/// The same with no runtime at all.
Numbers plain_loop(std::uint64_t seed) {
  Numbers weights;
  for (int l = 0; l < layers; ++l) weights.push_back(initial_weight(l));
  for (int step = 0; step < steps; ++step) {
    const auto draw = [&](std::string_view path, std::int64_t sample, std::string_view use) {
      return KeyedRandom(seed, step, path, sample, use);
    };
    Numbers gradient(layers);
    for (int mb = 0; mb < microbatches; ++mb) {
      Numbers part(layers);
      for (std::int64_t i = 0; i < micro_samples; ++i) {
        const std::int64_t sample = mb * micro_samples + i;
        std::vector<double> inputs;
        forward_through(0, weights, sample, sample_input(sample), draw, inputs);
        backward_through(0, weights, sample, inputs.back(), draw, inputs, part);
      }
      for (std::size_t l = 0; l < part.size(); ++l) gradient[l] += part[l];
    }
    for (std::size_t l = 0; l < weights.size(); ++l) weights[l] -= 0.01 * gradient[l];
  }
  return weights;
}

TEST(Dropout, WhatAStageDrawsDependsOnSeedStepPathSampleAndUseAlone) {
  std::vector<PlanConfig> configs;
  const auto add = [&configs](int stages, ScheduleName schedule) -> PlanConfig& {
    PlanConfig config;
    config.stages = stages;
    config.microbatches = microbatches;
    config.schedule = schedule;
    return configs.emplace_back(config);
  };
  for (const int stages : {1, 2, 3, 5, 8}) {
    for (const int drain_depth : {0, 1, stages - 1, microbatches}) {
      for (const OrderMode order : {OrderMode::fixed, OrderMode::adaptive}) {
        PlanConfig& config = add(stages, ScheduleName::drain);
        config.drain_depth = drain_depth;
        config.order = order;
      }
    }
    add(stages, ScheduleName::zb_h1);
    add(stages, ScheduleName::zb_h2);
  }
  for (const int stages : {2, 4, 6}) {
    for (const ScheduleName schedule : {ScheduleName::interleaved, ScheduleName::looped_bfs,
                                        ScheduleName::zb_v, ScheduleName::dualpipe_v}) {
      add(stages, schedule);
    }
  }
  add(6, ScheduleName::interleaved).chunks = 3;

  for (const std::uint64_t seed : {1ULL, 77ULL}) {
    const Numbers plain = plain_loop(seed);
    for (const PlanConfig& config : configs) {
      for (const unsigned threads : {0U, 3U}) {
        EXPECT_EQ(train(config, threads, seed), plain)
            << to_string(config.schedule) << " S=" << config.stages
            << " W=" << config.drain_depth.value_or(-1) << " threads=" << threads
            << " seed=" << seed;
      }
    }
  }
  EXPECT_NE(plain_loop(1), plain_loop(77));  // it is drawn at all
}

}  // namespace
}  // namespace sluice
