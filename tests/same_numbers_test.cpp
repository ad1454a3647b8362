// Numbers do not depend on how the work is done: every cut, every drain depth, fixed and adaptive order
// and any number of threads end with the weights of the plain loop, to the bit.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/kernels/data_set_source.hpp>
#include <sluice/kernels/perceptron_stage.hpp>
#include <sluice/kernels/plain_loop.hpp>
#include <sluice/kernels/tensor_pipeline.hpp>

namespace sluice::kernels {
namespace {

constexpr int microbatches = 5;
constexpr std::int64_t micro_samples = 3;
constexpr std::int64_t steps = 3;
constexpr std::int64_t features = 20;

std::shared_ptr<const DataSet> made_up_data() {
  constexpr std::int64_t samples = steps * microbatches * micro_samples;
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> labels;
  for (std::int64_t i = 0; i < samples; ++i) {
    labels.push_back(static_cast<std::uint8_t>(i * 7 % 4));
    for (std::int64_t f = 0; f < features; ++f) {
      bytes.push_back(static_cast<std::uint8_t>((i + 1) * (f + 3) * 37 % 251));
    }
  }
  return std::make_shared<const DataSet>("made up", bytes, labels, 4, Normalization{0.5F, 0.3F});
}

class SameNumbers : public testing::Test {
 protected:
  static constexpr std::uint64_t seed = 5;

  EpochBatches batches() const { return EpochBatches(data_->samples(), batch_samples_, seed); }

  /// What the plain loop makes of it.
  std::uint64_t plain() const {
    PartOptions options;
    options.seed = seed;
    options.micro_samples = micro_samples;
    PlainLoop loop(model_, options);
    EpochBatches all = batches();
    for (std::int64_t step = 0; step < steps; ++step) {
      const auto positions = all.batch(step);
      std::vector<PlainLoop::Microbatch> batch;
      for (std::size_t mb = 0; mb < microbatches; ++mb) {
        const auto rest = positions.subspan(mb * micro_samples);
        const auto slice = rest.first(std::min<std::size_t>(rest.size(), micro_samples));
        batch.push_back({data_->inputs(slice), data_->labels(slice)});
      }
      loop.step(batch);
    }
    return state_hash(loop.hashes());
  }

  std::uint64_t pipelined(const PlanConfig& config, asio::thread_pool& pool) const {
    std::vector<PerceptronStage*> stages;
    PerceptronStageOptions of_stage;
    of_stage.micro_samples = micro_samples;
    PipelineOptions options;
    options.executors = strand_per_rank(pool.get_executor());
    options.seed = seed;
    Pipeline<Tensor> pipeline(
        derive_plan(config),
        [&](const StageContext& context) {
          auto stage = std::make_unique<PerceptronStage>(
              context, model_, partition(model_, context.stages), of_stage);
          stages.push_back(stage.get());
          return stage;
        },
        options);
    EpochBatches all = batches();
    for (std::int64_t step = 0; step < steps; ++step) {
      pipeline.async_step(make_batch(data_, all.batch(step), microbatches), asio::use_future).get();
    }
    return state_hash(model_hashes(stages));
  }

  std::int64_t batch_samples_ = microbatches * micro_samples;
  const std::shared_ptr<const DataSet> data_ = made_up_data();
  const Perceptron model_{{features, 12, 12, 12, 4}};
};

TEST_F(SameNumbers, EveryCutDrainDepthOrderAndNumberOfThreads) {
  const std::uint64_t expected = plain();
  for (unsigned threads : {1U, 2U, 4U}) {
    asio::thread_pool pool(threads);
    for (int stages = 1; stages <= 4; ++stages) {
      for (int drain_depth = 0; drain_depth <= microbatches + stages; ++drain_depth) {
        for (const OrderMode order : {OrderMode::fixed, OrderMode::adaptive}) {
          PlanConfig config;
          config.stages = stages;
          config.microbatches = microbatches;
          config.drain_depth = drain_depth;
          config.order = order;
          ASSERT_EQ(pipelined(config, pool), expected)
              << fmt::format("S={} W={} {} order, {} threads", stages, drain_depth,
                             order == OrderMode::fixed ? "fixed" : "adaptive", threads);
        }
      }
    }
    pool.join();
  }
}

TEST_F(SameNumbers, AShortLastMicrobatchWeighsAsManySamplesAsItHas) {
  batch_samples_ = microbatches * micro_samples - 1;
  const std::uint64_t expected = plain();
  asio::thread_pool pool(2);
  for (const ScheduleName schedule :
       {ScheduleName::drain, ScheduleName::gpipe, ScheduleName::interleaved, ScheduleName::zb_h1}) {
    for (const OrderMode order : {OrderMode::fixed, OrderMode::adaptive}) {
      if (is_listed(schedule) && order == OrderMode::adaptive) continue;  // its order is the list
      PlanConfig config;
      config.stages = 4;
      config.microbatches = microbatches;
      config.schedule = schedule;
      config.order = order;
      EXPECT_EQ(pipelined(config, pool), expected)
          << to_string(schedule) << (order == OrderMode::fixed ? " fixed" : " adaptive");
    }
  }
  pool.join();
}

}  // namespace
}  // namespace sluice::kernels
