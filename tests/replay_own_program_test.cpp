// A program of one's own, recorded and replayed through the library alone, as docs/replay.md says.

#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/plain_stage.hpp>
#include <sluice/replay/recorder.hpp>
#include <sluice/replay/replayer.hpp>

#include "recording_support.hpp"

namespace sluice {

template <>
struct WireTraits<double> {
  static constexpr bool hashes = true;
  static std::uint64_t hash(const double& x) { return std::bit_cast<std::uint64_t>(x); }
};

namespace own_program {

double weight_at_first = 1;

struct Scale {
  double weight = weight_at_first, gradient = 0;
  std::map<MicrobatchId, double> inputs = {};

  double forward(ActionContext<double>& at, double x) {
    inputs[at.action.mb] = x;
    if (at.step == 3 && to_string(at.action) == "2F5") throw std::domain_error("out of range");
    if (at.target == nullptr) return weight * x;
    return (weight * x - *at.target) / static_cast<double>(at.batch_samples);
  }
  Gradients<double> backward(ActionContext<double>& at, double g) {
    return {g * weight, g * inputs.extract(at.action.mb).mapped()};
  }
  void accumulate(MicrobatchId, double contribution) { gradient += contribution; }
  void commit() { weight -= 0.005 * gradient, gradient = 0; }
  void abort() { gradient = 0, inputs.clear(); }
};

std::unique_ptr<Stage<double>> scale(const StageContext&) { return make_stage<double>(Scale()); }

MicrobatchData<double> numbers(MicrobatchId mb) {
  const double x = 0.25 * (mb.value + 1);
  return MicrobatchData<double>(x, 10 * x, 1);
}

Plan plan() {
  PlanConfig config;
  config.stages = 4;
  config.microbatches = 8;
  config.order = OrderMode::adaptive;
  return derive_plan(config);
}

void record_night(const std::string& file, const Plan& plan, asio::thread_pool& pool) {
  PipelineOptions options;
  options.executors = strand_per_rank(pool.get_executor());
  options.director = std::make_shared<replay::Recorder>(
      file, plan, std::make_shared<LiveDirector>(policy_for(plan)));
  Pipeline<double> pipeline(plan, scale, options);
  for (int step = 0; step < 4; ++step) {
    try {
      pipeline.async_step(make_batch<double>(8, numbers), asio::use_future).get();
    } catch (const StepError&) {
      EXPECT_EQ(step, 3);
    }
  }
}

replay::Verdict replay_night(const std::string& file, const Plan& plan, asio::thread_pool& pool) {
  const auto recording = replay::Recording::open(file);
  const auto replayer = std::make_shared<replay::Replayer>(
      recording, plan, std::make_shared<LiveDirector>(policy_for(plan)));
  PipelineOptions options;
  options.executors = strand_per_rank(pool.get_executor());
  options.director = replayer;
  Pipeline<double> pipeline(plan, scale, options);
  while (replayer->more()) {
    try {
      pipeline.async_step(make_batch<double>(plan.microbatches, numbers), asio::use_future).get();
    } catch (const StepError& error) {
      fmt::print("{}\n", error.what());  // it failed as recorded, or the replay has diverged
    }
  }
  if (replayer->divergence()) fmt::print("{}\n", replayer->divergence()->message);
  fmt::print("{}", coverage_of(*replayer));
  return replayer->verdict();
}

TEST(ReplayOwnProgram, OnAnyNumberOfThreadsAndTheOtherWayRound) {
  for (const unsigned made_on : {1U, 4U}) {
    const test::TempFolder folder;
    {
      asio::thread_pool pool(made_on);
      record_night(folder.file("night"), plan(), pool);
      pool.join();
    }
    for (const unsigned replayed_on : {1U, 4U}) {
      asio::thread_pool pool(replayed_on);
      EXPECT_EQ(replay_night(folder.file("night"), plan(), pool),
                replay::Verdict::failed_as_recorded);
      pool.join();
    }
  }
}

TEST(ReplayOwnProgram, ThatHasChangedDiverges) {
  const test::TempFolder folder;
  asio::thread_pool pool(2);
  record_night(folder.file("night"), plan(), pool);
  weight_at_first = 1.5;
  testing::internal::CaptureStdout();
  EXPECT_EQ(replay_night(folder.file("night"), plan(), pool), replay::Verdict::diverged);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              testing::ContainsRegex("^the replay has diverged from its recording: tensor differs "
                                     "at step 0, seq [0-9]+, rank [0-3] "));
  weight_at_first = 1;
  pool.join();
}

}  // namespace own_program
}  // namespace sluice
