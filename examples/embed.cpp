// A pipeline in a program of your own: four stages that each multiply by a weight learn, together, to
// multiply by ten.
#include <fmt/format.h>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>
#include <map>
#include <sluice/pipeline.hpp>
#include <sluice/plain_stage.hpp>
using namespace sluice;

struct Scale {
  double weight = 1, gradient = 0;
  std::map<MicrobatchId, double> inputs = {};  // kept for the backward

  double forward(ActionContext<double>& at, double x) {
    inputs[at.action.mb] = x;
    if (at.target == nullptr) return weight * x;
    const double error = weight * x - *at.target;  // the last stage has the loss
    at.report_loss(error * error / 2);
    return error / static_cast<double>(at.batch_samples);
  }
  Gradients<double> backward(ActionContext<double>& at, double g) {
    return {g * weight, g * inputs.extract(at.action.mb).mapped()};
  }
  void accumulate(MicrobatchId, double contribution) { gradient += contribution; }
  void commit() { weight -= 0.005 * gradient, gradient = 0; }
  void abort() { gradient = 0, inputs.clear(); }  // instead of commit, when anything has failed
};

MicrobatchData<double> numbers(MicrobatchId mb) {
  return {0.25 * (mb.value + 1), 2.5 * (mb.value + 1), 1};  // input, target, samples
}

int main() {
  asio::thread_pool pool(2);
  Pipeline<double> pipeline(derive_plan({.stages = 4, .microbatches = 8}),
                            [](const StageContext&) { return make_stage<double>(Scale()); },
                            {.executors = strand_per_rank(pool.get_executor())});
  for (int step = 0; step < 10; ++step)
    fmt::print("step {} loss {:.6f}\n", step,
               pipeline.async_step(make_batch<double>(8, numbers), asio::use_future).get().loss);
}
