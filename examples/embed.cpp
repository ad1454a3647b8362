// A pipeline in a program of your own: four stages that each multiply by a weight learn, together, to
// multiply by ten.
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/function_stage.hpp>
#include <sluice/pipeline.hpp>

using namespace sluice;

std::unique_ptr<Stage<double>> scale(const StageContext&) {
  struct State {
    double weight = 1, gradient = 0;
    std::map<MicrobatchId, double> inputs;  // kept for the backward
  };
  const auto my = std::make_shared<State>();
  return make_stage<double>(
      [my](ActionContext<double>& at, double x) {
        my->inputs[at.action.mb] = x;
        if (at.target == nullptr) return my->weight * x;
        const double error = my->weight * x - *at.target;  // the last stage has the loss
        at.report_loss(error * error / 2);
        return error / static_cast<double>(at.batch_samples);
      },
      [my](ActionContext<double>& at, double g) {
        return Gradients<double>(g * my->weight, g * my->inputs.extract(at.action.mb).mapped());
      },
      StageUpdate<double>{[my](MicrobatchId, double contribution) { my->gradient += contribution; },
                          [](std::int64_t) {},  // may still refuse the update
                          [my] { my->weight -= 0.005 * std::exchange(my->gradient, 0); },
                          [my] { my->gradient = 0, my->inputs.clear(); }});
}

MicrobatchData<double> numbers(MicrobatchId mb) {
  const double x = 0.25 * (mb.value + 1);
  return MicrobatchData<double>(x, 10 * x, 1);  // input, target, samples
}

int main() {
  asio::thread_pool pool(2);
  PlanConfig config;
  config.stages = 4;
  config.microbatches = 8;
  PipelineOptions options;
  options.executors = strand_per_rank(pool.get_executor());
  Pipeline<double> pipeline(derive_plan(config), scale, options);
  for (int step = 0; step < 10; ++step) {
    const auto result = pipeline.async_step(make_batch<double>(8, numbers), asio::use_future).get();
    fmt::print("step {} loss {:.6f}\n", step, result.loss);
  }
  pool.join();
}
