// What reading and replaying a recording cost: opened and checked, its order replayed with stubs, two of
// them compared: actions a second, and for the order alone also events a second. And a whole training,
// recorded and replayed with its kernels in turn: the replay's processor seconds over the recorded run's.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <unistd.h>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/kernels/data_set_source.hpp>
#include <sluice/kernels/perceptron_stage.hpp>
#include <sluice/kernels/tensor_pipeline.hpp>
#include <sluice/replay/diff.hpp>
#include <sluice/replay/schedule_replay.hpp>

#include "recorded_run.hpp"
#include "made_up_images.hpp"

namespace sluice::replay {
namespace {

constexpr int steps = 50;

/// An adaptive run in `verify`, recorded once and removed with the program.
const std::string& recorded(int stages, int microbatches) {
  struct File {
    std::string path;
    ~File() { std::filesystem::remove(path); }
  };
  static std::map<std::pair<int, int>, File> files;
  File& file = files[{stages, microbatches}];
  if (file.path.empty()) {
    file.path = (std::filesystem::temp_directory_path() /
                 fmt::format("replay_bench.{}.{}.{}", stages, microbatches, ::getpid()))
                    .string();
    test::ToyRun run;
    run.config = test::toy_config(stages, microbatches, OrderMode::adaptive);
    run.steps = steps;
    test::record_toy(run, file.path, test::Machine{0, 1});
  }
  return file.path;
}

void count_actions(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * 2 * state.range(0) * state.range(1) * steps);
}

void open(benchmark::State& state) {
  const std::string& file =
      recorded(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) benchmark::DoNotOptimize(Recording::open(file));
  count_actions(state);
}

void schedule_only(benchmark::State& state) {
  const auto recording =
      Recording::open(recorded(static_cast<int>(state.range(0)), static_cast<int>(state.range(1))));
  for (auto _ : state) {
    const ScheduleReplay replay = replay_schedule(recording);
    if (replay.verdict != Verdict::same) state.SkipWithError("not the same");
  }
  count_actions(state);
  const auto events =
      static_cast<double>(state.iterations() * 4 * state.range(0) * state.range(1) * steps);
  state.counters["events_per_second"] = benchmark::Counter(events, benchmark::Counter::kIsRate);
}

// --- a whole training ---

double processor_seconds() {
  std::timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

constexpr std::int64_t training_steps = 12;

/// Processor seconds of some steps of S=4, M=16, 32 samples a microbatch, three hidden layers of `width`,
/// on two threads; without making the pipeline.
double train(std::int64_t width, const Plan& plan, const std::shared_ptr<Director>& director,
             const std::shared_ptr<const kernels::DataSet>& data) {
  asio::thread_pool pool(2);
  PipelineOptions options;
  options.executors = strand_per_rank(pool.get_executor());
  options.director = director;
  Pipeline<kernels::Tensor> pipeline(
      plan,
      [width](const StageContext& context) {
        const kernels::Perceptron model({784, width, width, width, 10});
        return std::make_unique<kernels::PerceptronStage>(context, model,
                                                          kernels::partition(model, context.stages),
                                                          kernels::PerceptronStageOptions());
      },
      options);
  kernels::EpochBatches batches(data->samples(), 16 * 32, 1);
  const double start = processor_seconds();
  for (std::int64_t step = 0; step < training_steps; ++step) {
    pipeline
        .async_step(kernels::make_batch(data, batches.batch(step), plan.microbatches),
                    asio::use_future)
        .get();
  }
  return processor_seconds() - start;
}

/// An iteration records a run and replays it.
void numeric(benchmark::State& state) {
  PlanConfig config = test::toy_config(4, 16, OrderMode::adaptive);
  const Plan plan = derive_plan(config);
  const auto data = made_up_images();
  const std::string file =
      (std::filesystem::temp_directory_path() / fmt::format("replay_bench.numeric.{}", ::getpid()))
          .string();
  std::vector<double> ratios;
  double recorded_seconds = 0;
  for (auto _ : state) {
    RecorderOptions options;
    options.overwrite = true;
    const auto recorder = std::make_shared<Recorder>(file, plan, nullptr, options);
    const double recorded = train(state.range(0), plan, recorder, data);
    recorder->close();
    const auto replayer = std::make_shared<Replayer>(
        Recording::open(file), plan, std::make_shared<LiveDirector>(policy_for(plan)));
    ratios.push_back(train(state.range(0), plan, replayer, data) / recorded);
    recorded_seconds += recorded;
    if (replayer->verdict() != Verdict::same) state.SkipWithError("not the same");
  }
  std::filesystem::remove(file);
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  state.counters["core_seconds_recorded"] =
      recorded_seconds / static_cast<double>(state.iterations());
  state.counters["replay_over_recorded"] = *middle;
}

void compare_two(benchmark::State& state) {
  const auto recording =
      Recording::open(recorded(static_cast<int>(state.range(0)), static_cast<int>(state.range(1))));
  for (auto _ : state) benchmark::DoNotOptimize(diff(*recording, *recording));
  count_actions(state);
}

BENCHMARK(open)->Args({4, 32})->Args({8, 64});
BENCHMARK(schedule_only)->Args({4, 32})->Args({8, 64})->Args({32, 256});
BENCHMARK(compare_two)->Args({8, 64});
BENCHMARK(numeric)->Arg(256)->Iterations(15)->Unit(benchmark::kMillisecond);
BENCHMARK(numeric)->Arg(1024)->Iterations(7)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice::replay
