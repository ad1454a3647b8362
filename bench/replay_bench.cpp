// What reading and replaying a recording cost: opened and checked, its order replayed with stubs, two of
// them compared. Actions a second.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <sluice/replay/diff.hpp>
#include <sluice/replay/schedule_replay.hpp>

#include "../tests/recorded_run.hpp"

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

}  // namespace
}  // namespace sluice::replay
