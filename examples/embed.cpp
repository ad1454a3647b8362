// A pipeline in a program of your own: your values, your stages, your threads.
//
// Four stages that each multiply by one weight learn to multiply by ten together.
#include <map>
#include <memory>

#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>
#include <fmt/format.h>

#include <sluice/pipeline.hpp>

using namespace sluice;

struct Scale : Stage<double> {
  double weight = 1, gradient = 0;
  std::map<MicrobatchId, double> inputs;  // kept for the backward

  asio::awaitable<double> forward(ActionContext<double>& context, double x) override {
    inputs[context.action.mb] = x;
    if (context.target == nullptr) co_return weight * x;
    const double error = weight * x - *context.target;  // the last stage has the loss
    context.report_loss(error * error / 2);
    co_return error / static_cast<double>(context.batch_samples);
  }
  asio::awaitable<Gradients<double>> backward(ActionContext<double>& context, double g) override {
    const double x = inputs.extract(context.action.mb).mapped();
    co_return Gradients<double>(g * weight, g * x);
  }
  void accumulate(MicrobatchId, double contribution) override { gradient += contribution; }
  void prepare_update(std::int64_t) override {}
  void commit() noexcept override { weight -= 0.005 * std::exchange(gradient, 0); }
  void abort() noexcept override { gradient = 0, inputs.clear(); }
};

struct Numbers : BatchSource<double> {
  asio::awaitable<MicrobatchData<double>> next(MicrobatchId mb) override {
    const double x = 0.25 * (mb.value + 1);
    co_return MicrobatchData<double>(x, 10 * x, 1);  // input, target, samples
  }
};

int main() {
  asio::thread_pool pool(2);
  PlanConfig config;
  config.stages = 4;
  config.microbatches = 8;
  PipelineOptions options;
  options.executors = strand_per_rank(pool.get_executor());
  Pipeline<double> pipeline(
      derive_plan(config), [](const StageContext&) { return std::make_unique<Scale>(); }, options);
  for (int step = 0; step <= 60; ++step) {
    const auto result =
        pipeline.async_step(Batch<double>(std::make_shared<Numbers>(), 8), asio::use_future).get();
    if (step % 20 == 0) fmt::print("step {} loss {:.6f}\n", step, result.loss);
  }
  pool.join();
}
