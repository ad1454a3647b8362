// Records a run and replays it with the lines that README.md shows; tests/lint.sh compares them.
#include <cstdio>
#include <map>
#include <memory>

#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/plain_stage.hpp>
#include <sluice/replay/recorder.hpp>
#include <sluice/replay/replayer.hpp>

using namespace sluice;

struct Scale {
  double forward(ActionContext<double>& at, double x) {
    return inputs[at.action.mb] = x, weight * x;
  }
  Gradients<double> backward(ActionContext<double>& at, double g) {
    return {g * weight, g * inputs.extract(at.action.mb).mapped()};
  }
  void accumulate(MicrobatchId, double contribution) { gradient += contribution; }
  void commit() { weight -= 0.01 * gradient, gradient = 0; }
  void abort() { gradient = 0, inputs.clear(); }

  double weight = 1, gradient = 0;
  std::map<MicrobatchId, double> inputs = {};
};

// Trains while `more` says so.
template <class More>
static void train(const Plan& plan, const PipelineOptions& options, More more) {
  Pipeline<double> pipeline(
      plan, [](const StageContext&) { return make_stage<double>(Scale()); }, options);
  const auto ones = [](MicrobatchId) { return MicrobatchData<double>(1, 1, 1); };
  while (more()) pipeline.async_step(make_batch<double>(4, ones), asio::use_future).get();
}

int main() {
  std::remove("night.slrec");
  asio::thread_pool pool(2);
  const Plan plan = derive_plan({.stages = 3, .microbatches = 4, .order = OrderMode::adaptive});
  PipelineOptions options{.executors = strand_per_rank(pool.get_executor())};
  {
    options.director = std::make_shared<replay::Recorder>(
        "night.slrec", plan, std::make_shared<LiveDirector>(policy_for(plan)));
    int steps = 3;
    train(plan, options, [&steps] { return steps-- > 0; });
    options.director = nullptr;  // closes the recording
  }
  const auto replayer =
      std::make_shared<replay::Replayer>(replay::Recording::open("night.slrec"), plan);
  options.director = replayer;  // run its steps, then ask replayer->verdict()
  train(plan, options, [&replayer] { return replayer->more(); });
  return replayer->verdict() == replay::Verdict::same ? 0 : 1;
}
