// A real model in a real pipeline: Fashion-MNIST, two threads, against the plain loop.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/kernels/data_set_source.hpp>
#include <sluice/kernels/fashion_mnist.hpp>
#include <sluice/kernels/perceptron_stage.hpp>
#include <sluice/kernels/plain_loop.hpp>
#include <sluice/kernels/tensor_pipeline.hpp>

namespace sluice::kernels {
namespace {

constexpr int stages = 4;
constexpr int microbatches = 8;
constexpr std::int64_t micro_samples = 32;
constexpr std::int64_t batch_samples = micro_samples * microbatches;
constexpr std::uint64_t seed = 1;

const Perceptron model({784, 128, 512, 128, 512, 10});

SgdOptions optimizer(std::int64_t steps) {
  SgdOptions options;
  options.learning_rate = 0.03F;
  options.decay_steps = steps;
  return options;
}

std::shared_ptr<const DataSet> load(Subset subset) {
  return std::make_shared<const DataSet>(load_fashion_mnist(subset, fashion_mnist_folder));
}

/// Takes `steps` steps and returns the losses.
std::vector<double> train(Pipeline<Tensor>& pipeline, const std::shared_ptr<const DataSet>& data,
                          std::int64_t steps) {
  EpochBatches batches(data->samples(), batch_samples, seed);
  std::vector<double> losses(static_cast<std::size_t>(steps));
  for (std::int64_t step = 0; step < steps; ++step) {
    const Batch<Tensor> batch = make_batch(data, batches.batch(step), microbatches);
    losses[static_cast<std::size_t>(step)] =
        pipeline.async_step(batch, asio::use_future).get().loss;
  }
  return losses;
}

std::vector<ParameterHash> hashes_of(Pipeline<Tensor>& pipeline) {
  std::vector<PerceptronStage*> parts;
  parts.reserve(static_cast<std::size_t>(pipeline.plan().stages));
  for (int s = 0; s < pipeline.plan().stages; ++s) {
    parts.push_back(&dynamic_cast<PerceptronStage&>(pipeline.stage(StageId(s))));
  }
  return model_hashes(parts);
}

Pipeline<Tensor> make_pipeline(asio::thread_pool& pool, const PlanConfig& config,
                               std::int64_t steps) {
  PipelineOptions options;
  options.executors = strand_per_rank(pool.get_executor());
  options.seed = seed;
  PerceptronStageOptions of_stage;
  of_stage.micro_samples = micro_samples;
  of_stage.sgd = optimizer(steps);
  const auto cut = partition(model, config.stages);
  return Pipeline<Tensor>(
      derive_plan(config),
      [cut, of_stage](const StageContext& context) {
        return std::make_unique<PerceptronStage>(context, model, cut, of_stage);
      },
      options);
}

TEST(Training, EveryScheduleEqualsThePlainLoopBitForBit) {
  constexpr std::int64_t steps = 4;
  const auto data = load(Subset::test);

  PartOptions plain;
  plain.seed = seed;
  plain.micro_samples = micro_samples;
  plain.sgd = optimizer(steps);
  PlainLoop loop(model, plain);
  EpochBatches batches(data->samples(), batch_samples, seed);
  std::vector<double> expected;
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto positions = batches.batch(step);
    std::vector<PlainLoop::Microbatch> batch;
    for (std::size_t m = 0; m < microbatches; ++m) {
      const auto slice = positions.subspan(m * micro_samples, micro_samples);
      batch.push_back({data->inputs(slice), data->labels(slice)});
    }
    expected.push_back(loop.step(batch).loss / batch_samples);
  }

  asio::thread_pool pool(2);
  const auto expect_equal = [&](const PlanConfig& config, const std::string& what) {
    Pipeline<Tensor> pipeline = make_pipeline(pool, config, steps);
    EXPECT_EQ(train(pipeline, data, steps), expected) << what;
    EXPECT_EQ(state_hash(hashes_of(pipeline)), state_hash(loop.hashes())) << what;
  };
  for (const int parts : {1, 2, 4}) {
    for (const int drain_depth : {0, 1, 3, 20}) {
      for (const OrderMode order : {OrderMode::fixed, OrderMode::adaptive}) {
        PlanConfig config;
        config.stages = parts;
        config.microbatches = microbatches;
        config.drain_depth = drain_depth;
        config.order = order;
        expect_equal(config, fmt::format("{} stages, W {}", parts, drain_depth));
      }
    }
  }
  // One that goes backwards last to first, one that splits the backward, one that does so in a V.
  for (const ScheduleName schedule :
       {ScheduleName::looped_bfs, ScheduleName::zb_h1, ScheduleName::zb_v}) {
    PlanConfig config;
    config.stages = stages;
    config.microbatches = microbatches;
    config.schedule = schedule;
    expect_equal(config, std::string(to_string(schedule)));
  }
  pool.join();
}

TEST(Training, LearnsToTellClothesApart) {
  const auto training = load(Subset::train);
  const auto testing = load(Subset::test);
  const std::int64_t steps = training->samples() / batch_samples;  // one epoch
  asio::thread_pool pool(2);
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  Pipeline<Tensor> pipeline = make_pipeline(pool, config, steps);
  train(pipeline, training, steps);

  std::vector<std::uint32_t> all(static_cast<std::size_t>(testing->samples()));
  std::iota(all.begin(), all.end(), 0U);
  const StepResult result =
      pipeline.async_evaluate(make_batch(testing, all, microbatches), {}, asio::use_future).get();
  pool.join();
  ASSERT_EQ(result.figures.size(), 1U);
  EXPECT_EQ(result.figures[0].name, "correct");
  EXPECT_GT(result.figures[0].sum / 10'000, 0.84);
  EXPECT_LT(result.loss, 0.5);
}

}  // namespace
}  // namespace sluice::kernels
