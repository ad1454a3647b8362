// What an append costs: the mean over a step's events, and the tail, event by event.
//
// As the recorder does it: room for a step is made before it, outside the time that is taken.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <sluice/replay/recording_writer.hpp>
#include <sluice/replay/step_decoder.hpp>

namespace sluice::replay {
namespace {

using format::Kind;
using Clock = std::chrono::steady_clock;

constexpr int actions_a_step = 128;
constexpr std::size_t pages_a_step = 4;
constexpr int steps_a_file = 20000;

/// A recording of one rank that starts over before it fills the disk.
class File {
 public:
  RecordStream& begin_step() {
    if (steps_ % steps_a_file == 0) {
      writer_.reset();
      std::filesystem::remove(path_);
      RecordingHeader header;
      header.ranks = 1;
      header.stages = 1;
      writer_ = std::make_unique<RecordingWriter>(path_, header);
    }
    writer_->seal_full_pages();
    writer_->make_room(pages_a_step);
    writer_->rank(RankId(0)).append(Kind::step, steps_++);
    return writer_->rank(RankId(0));
  }
  ~File() {
    writer_.reset();
    std::filesystem::remove(path_);
  }

 private:
  std::string path_ =
      (std::filesystem::temp_directory_path() / ("append_bench." + std::to_string(::getpid())))
          .string();
  std::unique_ptr<RecordingWriter> writer_;
  std::uint64_t steps_ = 0;
};

void planned(RecordStream& rank, int) {
  rank.append_planned();
  rank.append_planned();
}
void hashed(RecordStream& rank, int action) {
  rank.append_planned();
  rank.append_hash(Kind::exit, 0x9E3779B97F4A7C15U * static_cast<unsigned>(action));
}
void deviating(RecordStream& rank, int action) {
  rank.append(Kind::enter, code_of(Action(StageId(0), Phase::forward, MicrobatchId(action)), 1));
  rank.append_hash(Kind::exit, 0x9E3779B97F4A7C15U * static_cast<unsigned>(action));
}

using Append = void (*)(RecordStream&, int action);

/// ns an event; each call of `append` is two.
void mean(benchmark::State& state, Append append) {
  File file;
  for (auto _ : state) {
    RecordStream& rank = file.begin_step();
    const auto start = Clock::now();
    for (int action = 0; action < actions_a_step; ++action) append(rank, action);
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
  }
  state.SetItemsProcessed(state.iterations() * 2 * actions_a_step);
}

/// Percentiles of one action's two appends, the clock's own cost taken off.
void tail(benchmark::State& state, Append append) {
  std::vector<double> took;
  std::vector<double> clock;
  File file;
  const auto ns = [](auto from, auto to) {
    return std::chrono::duration<double, std::nano>(to - from).count();
  };
  for (auto _ : state) {
    RecordStream& rank = file.begin_step();
    for (int action = 0; action < actions_a_step; ++action) {
      const auto before = Clock::now();
      const auto start = Clock::now();
      append(rank, action);
      const auto end = Clock::now();
      clock.push_back(ns(before, start));
      took.push_back(ns(start, end));
    }
  }
  const auto at = [](std::vector<double>& values, double share) {
    const auto place = values.begin() +
                       static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), place, values.end());
    return *place;
  };
  const double cost = at(clock, 0.5);
  state.counters["p50_ns"] = at(took, 0.5) - cost;
  state.counters["p99.9_ns"] = at(took, 0.999) - cost;
  state.counters["max_us"] = at(took, 1.0) / 1000;
  state.counters["clock_max_us"] = at(clock, 1.0) / 1000;
}

BENCHMARK_CAPTURE(mean, planned, planned)->UseManualTime();
BENCHMARK_CAPTURE(mean, hashed, hashed)->UseManualTime();
BENCHMARK_CAPTURE(mean, deviating, deviating)->UseManualTime();
BENCHMARK_CAPTURE(tail, planned, planned)->Iterations(20000);
BENCHMARK_CAPTURE(tail, hashed, hashed)->Iterations(20000);

}  // namespace
}  // namespace sluice::replay
