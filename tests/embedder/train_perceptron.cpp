// Trains a perceptron that is cut into two stages on data of its own: what kernels offers an embedder.
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/kernels/data_set_source.hpp>
#include <sluice/kernels/perceptron_stage.hpp>
#include <sluice/kernels/tensor_pipeline.hpp>

using namespace sluice;
using namespace sluice::kernels;

int main() {
  constexpr std::int64_t samples = 8;
  constexpr std::uint32_t features = 4;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
  std::vector<std::uint32_t> all;
  for (std::uint32_t sample = 0; sample < samples; ++sample) {
    all.push_back(sample);
    labels.push_back(static_cast<std::uint8_t>(sample % 2));
    for (std::uint32_t f = 0; f < features; ++f) {
      pixels.push_back(f % 2 == sample % 2 ? 200 : 20);
    }
  }
  const auto data =
      std::make_shared<const DataSet>("stripes", pixels, labels, 2, Normalization{0.5F, 0.3F});

  const Perceptron model({features, 8, 2});
  PerceptronStageOptions of_stage;
  of_stage.micro_samples = 2;
  asio::thread_pool pool(2);
  PipelineOptions options;
  options.executors = strand_per_rank(pool.get_executor());
  Pipeline<Tensor> pipeline(
      derive_plan({.stages = 2, .microbatches = 4}),
      [&](const StageContext& context) {
        return std::make_unique<PerceptronStage>(context, model, partition(model, 2), of_stage);
      },
      options);
  double first = 0;
  double last = 0;
  for (int step = 0; step < 20; ++step) {
    last = pipeline.async_step(make_batch(data, all, 4), asio::use_future).get().loss;
    if (step == 0) first = last;
  }
  return std::isfinite(first) && last < first / 2 ? 0 : 1;
}
