// What recording costs: an append, in the mean and in the tail, beside spdlog's asynchronous logger and
// a plain fwrite of the same event; bytes an action; the recorder's share of a training step; a tensor's
// hash.
//
// As the recorder does it: room for a step is made before it, outside the time that is taken.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <spdlog/async.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <sluice/kernels/data_set_source.hpp>
#include <sluice/kernels/perceptron_stage.hpp>
#include <sluice/kernels/tensor_pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>
#include <sluice/replay/recorder.hpp>
#include <sluice/replay/recording_writer.hpp>
#include <sluice/replay/step_decoder.hpp>

#include "made_up_images.hpp"

namespace sluice::replay {
namespace {

using format::Kind;
using Clock = std::chrono::steady_clock;

constexpr int actions_a_step = 128;
constexpr std::size_t pages_a_step = 4;
constexpr int steps_a_file = 20000;

std::string temporary(const char* name) {
  return (std::filesystem::temp_directory_path() /
          (std::string(name) + '.' + std::to_string(::getpid())))
      .string();
}

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
  std::string path_ = temporary("append_bench");
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

/// Percentiles of one action's two events, the clock's own cost taken off.
void tail_of(benchmark::State& state, const std::function<void()>& begin_step,
             const std::function<void(int action)>& append) {
  std::vector<double> took;
  std::vector<double> clock;
  const auto ns = [](auto from, auto to) {
    return std::chrono::duration<double, std::nano>(to - from).count();
  };
  for (auto _ : state) {
    begin_step();
    for (int action = 0; action < actions_a_step; ++action) {
      const auto before = Clock::now();
      const auto start = Clock::now();
      append(action);
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

void tail(benchmark::State& state, Append append) {
  File file;
  RecordStream* rank = nullptr;
  tail_of(state, [&] { rank = &file.begin_step(); }, [&](int action) { append(*rank, action); });
}

/// The same two events as lines of text, formatted and written by the logger's own thread.
void spdlog_async(benchmark::State& state) {
  const std::string path = temporary("append_bench.log");
  spdlog::init_thread_pool(1 << 16, 1);
  auto logger = spdlog::basic_logger_mt<spdlog::async_factory>("events", path, true);
  logger->set_pattern("%v");
  tail_of(
      state, [] {},
      [&](int action) {
        logger->info("mb={} stage={} phase={} event=enter", action, 0, 'F');
        logger->info("mb={} stage={} phase={} event=exit hash={:016x}", action, 0, 'F',
                     0x9E3779B97F4A7C15U * static_cast<unsigned>(action));
      });
  logger.reset();
  spdlog::shutdown();
  std::filesystem::remove(path);
}

/// The same two events as bytes, into the buffer of a FILE: what a kill loses.
void plain_fwrite(benchmark::State& state) {
  struct Written {
    std::uint64_t action = 0;
    std::uint64_t hash = 0;
  };
  const std::string path = temporary("append_bench.bin");
  std::FILE* file = std::fopen(path.c_str(), "wb");
  tail_of(
      state, [] {},
      [&](int action) {
        Written event{static_cast<std::uint64_t>(action), 0};
        std::fwrite(&event, sizeof event, 1, file);
        event.hash = 0x9E3779B97F4A7C15U * static_cast<unsigned>(action);
        std::fwrite(&event, sizeof event, 1, file);
      });
  std::fclose(file);
  std::filesystem::remove(path);
}

/// Bytes of the closed file an action.
void size(benchmark::State& state, Append append) {
  const std::string path = temporary("append_bench.size");
  constexpr int steps = 2000;
  for (auto _ : state) {
    RecordingHeader header;
    header.ranks = 1;
    header.stages = 1;
    RecordingWriter writer(path, header);
    for (std::uint64_t step = 0; step < steps; ++step) {
      writer.make_room(pages_a_step);
      writer.rank(RankId(0)).append(Kind::step, step);
      for (int action = 0; action < actions_a_step; ++action)
        append(writer.rank(RankId(0)), action);
      writer.rank(RankId(0)).append(Kind::done);
    }
    writer.close();
    state.counters["bytes_an_action"] =
        static_cast<double>(std::filesystem::file_size(path)) / (steps * actions_a_step);
    std::filesystem::remove(path);
  }
}

// --- a training step ---

/// S=4, M=16, 32 samples a microbatch, three hidden layers of `width`, on this thread alone.
class Training {
 public:
  Training(std::int64_t width, std::optional<RecordingMode> mode)
      : plan_(plan()), path_(temporary("append_bench.train")) {
    if (mode) {
      RecorderOptions options;
      options.mode = *mode;
      options.overwrite = true;
      director_ = std::make_shared<Recorder>(path_, plan_, nullptr, options);
      std::filesystem::remove(path_);  // it lives as long as it is written to
    }
    PipelineOptions options;
    options.executors = any_order(context_);
    options.director = director_;
    pipeline_.emplace(
        plan_,
        [width](const StageContext& context) {
          const kernels::Perceptron model({784, width, width, width, 10});
          return std::make_unique<kernels::PerceptronStage>(
              context, model, kernels::partition(model, context.stages),
              kernels::PerceptronStageOptions());
        },
        options);
  }

  double step(const std::shared_ptr<const kernels::DataSet>& data,
              std::span<const std::uint32_t> positions) {
    const auto start = Clock::now();
    pipeline_->async_step(kernels::make_batch(data, positions, plan_.microbatches),
                          [](std::exception_ptr error, const StepResult&) {
                            if (error) std::rethrow_exception(error);
                          });
    context_.run();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  static Plan plan() {
    PlanConfig config;
    config.stages = 4;
    config.microbatches = 16;
    return derive_plan(config);
  }

  Plan plan_;
  std::string path_;
  std::shared_ptr<Director> director_;
  DeterministicContext context_;
  std::optional<Pipeline<kernels::Tensor>> pipeline_;
};

/// Steps in turn without a recorder and with each mode; the share is the median of each round's ratio.
/// What a hash costs grows with the width of a layer, what the layer computes with its square.
void training_step(benchmark::State& state) {
  const auto data = made_up_images();
  kernels::EpochBatches batches(data->samples(), 16 * 32, 1);
  Training off(state.range(0), std::nullopt);
  Training ring(state.range(0), RecordingMode::ring);
  Training full(state.range(0), RecordingMode::full);
  Training verify(state.range(0), RecordingMode::verify);
  std::vector<double> alone;
  std::array<std::vector<double>, 3> shares;
  std::int64_t step = 0;
  for (auto _ : state) {
    const auto positions = batches.batch(step++);
    const double without = off.step(data, positions);
    alone.push_back(without);
    std::size_t which = 0;
    for (Training* recorded : {&ring, &full, &verify}) {
      shares[which++].push_back(recorded->step(data, positions) / without - 1);
    }
  }
  const auto median = [](std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  };
  state.counters["ms_unrecorded"] = 1000 * median(alone);
  state.counters["ring_%"] = 100 * median(shares[0]);
  state.counters["full_%"] = 100 * median(shares[1]);
  state.counters["verify_%"] = 100 * median(shares[2]);
}

void tensor_hash(benchmark::State& state) {
  auto tensor = kernels::Tensor::zeros(kernels::DType::f32, kernels::Dims{state.range(0), 256});
  for (auto _ : state) benchmark::DoNotOptimize(tensor.hash());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(tensor.bytes()));
}

BENCHMARK_CAPTURE(mean, planned, planned)->UseManualTime();
BENCHMARK_CAPTURE(mean, hashed, hashed)->UseManualTime();
BENCHMARK_CAPTURE(mean, deviating, deviating)->UseManualTime();
BENCHMARK_CAPTURE(tail, planned, planned)->Iterations(20000);
BENCHMARK_CAPTURE(tail, hashed, hashed)->Iterations(20000);
BENCHMARK(spdlog_async)->Iterations(20000);
BENCHMARK(plain_fwrite)->Iterations(20000);
BENCHMARK_CAPTURE(size, planned, planned)->Iterations(1);
BENCHMARK_CAPTURE(size, hashed, hashed)->Iterations(1);
BENCHMARK_CAPTURE(size, deviating, deviating)->Iterations(1);
BENCHMARK(training_step)->Arg(256)->Iterations(300)->Unit(benchmark::kMillisecond);
BENCHMARK(training_step)->Arg(1024)->Iterations(40)->Unit(benchmark::kMillisecond);
BENCHMARK(tensor_hash)->Arg(32)->Arg(1024);

}  // namespace
}  // namespace sluice::replay
