// What an embedder does to a pipeline in a server of its own, and what must come of it.
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/plain_stage.hpp>

#include "toy_pipeline.hpp"

namespace sluice {

/// A value with everything that the core may ask about.
struct Number {
  double x = 0;
};

template <>
struct WireTraits<Number> {
  static constexpr bool hashes = true;
  static std::uint64_t hash(const Number& number) { return std::bit_cast<std::uint64_t>(number.x); }
  static bool finite(const Number& number) { return std::isfinite(number.x); }
  static Number clone(const Number& number) { return number; }
};

namespace {

using test::on;
using test::plan_of;
using test::Toy;
using test::toy_batch;
using test::toy_factory;
using test::ToyHooks;
using test::weights_of;
using ::testing::HasSubstr;

TEST(Embedding, CallbacksThatThrowAreToldAndTheNextStepRuns) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  options.log = [](std::span<const Event>) { throw std::runtime_error("disk full"); };
  Pipeline<Toy> pipeline(plan_of(2, 4), toy_factory(std::make_shared<ToyHooks>()), options);
  for (int step = 0; step < 2; ++step) {
    std::string told;
    pipeline.async_step(toy_batch(step, 4), [&told](std::exception_ptr error, StepResult) {
      told = error ? text_of(error) : "no error";
    });
    context.run();
    context.restart();
    EXPECT_EQ(told, "the step was applied, but its director, log or metrics failed: disk full");
  }
  EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(2, 4, 2));
}

TEST(Embedding, OptionsThatCannotWorkAreRefusedAtOnce) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  const auto no_stage = [](const StageContext&) { return std::unique_ptr<Stage<Toy>>(); };
  EXPECT_THROW(Pipeline<Toy>(plan_of(2, 2), no_stage, options), std::invalid_argument);
  options.stall_after = std::chrono::seconds(1);
  EXPECT_THROW(Pipeline<Toy>(plan_of(2, 2), toy_factory(std::make_shared<ToyHooks>()), options),
               std::invalid_argument);
  options.stall_after = std::chrono::seconds(0);
  options.alarm = [](const asio::any_io_executor&) { return std::unique_ptr<Alarm>(); };
  Pipeline<Toy> pipeline(plan_of(2, 4), toy_factory(std::make_shared<ToyHooks>()), options);
  std::vector<std::string> told;
  const auto run = [&](Batch<Toy> batch) {
    pipeline.async_step(std::move(batch), [&told](std::exception_ptr error, StepResult) {
      told.push_back(error ? text_of(error) : "fine");
    });
    context.run();
    context.restart();
  };
  auto late = toy_batch(0, 4);
  late.deadline = std::chrono::seconds(1);
  run(late);
  auto empty = toy_batch(0, 4);
  empty.samples = 0;
  run(empty);
  run(toy_batch(0, 4));
  EXPECT_THAT(told, ::testing::ElementsAre(HasSubstr("has made no alarm"),
                                           HasSubstr("announced with 0 samples"), "fine"));
}

/// One step of a pipeline of 2 stages x 3 microbatches whose stages do `forward`.
std::string outcome_of(const std::function<Number(ActionContext<Number>&, Number)>& forward,
                       PipelineOptions options) {
  asio::io_context context;
  options.executors = single_thread(context.get_executor());
  Pipeline<Number> pipeline(
      plan_of(2, 3),
      [&forward](const StageContext&) {
        return make_stage<Number>(forward, [](ActionContext<Number>&, Number gradient) {
          return Gradients<Number>(gradient, Number());
        });
      },
      options);
  std::string outcome;
  const auto next = [](MicrobatchId) { return MicrobatchData<Number>(Number{1}, Number{1}, 1); };
  pipeline.async_step(make_batch<Number>(3, next), [&](std::exception_ptr error, StepResult) {
    outcome = error ? text_of(error) : "fine";
  });
  context.run();
  return outcome;
}

TEST(Embedding, NaNIsNamedWhereItAppearsWhenAskedFor) {
  const auto nan_in_1f2 = [](ActionContext<Number>& at, Number x) {
    return to_string(at.action) == "1F2" ? Number{std::nan("")} : x;
  };
  PipelineOptions options;
  EXPECT_EQ(outcome_of(nan_in_1f2, options), "fine");
  options.check_finite = FiniteCheck::everything;
  EXPECT_EQ(outcome_of(nan_in_1f2, options),
            "stage 1, mb 2, F failed: its output holds NaN or Inf");
  const auto infinite_loss = [](ActionContext<Number>& at, Number x) {
    if (at.target != nullptr && at.action.mb == MicrobatchId(1)) at.report_loss(INFINITY);
    return x;
  };
  EXPECT_EQ(outcome_of(infinite_loss, options), "stage 1, mb 1, F failed: its loss is inf");
  options.check_finite = FiniteCheck::loss;
  EXPECT_EQ(outcome_of(infinite_loss, options), "stage 1, mb 1, F failed: its loss is inf");
  EXPECT_EQ(outcome_of(nan_in_1f2, options), "fine");
}

TEST(Embedding, AStageThatBreaksItsPromiseOfBitsIsFoundByRunningItTwice) {
  int calls = 0;
  const auto drifting = [&calls](ActionContext<Number>& at, Number x) {
    if (at.action.stage == StageId(1)) x.x += ++calls;
    return x;
  };
  PipelineOptions options;
  EXPECT_EQ(outcome_of(drifting, options), "fine");
  options.probe_determinism = true;
  EXPECT_THAT(outcome_of(drifting, options),
              ::testing::StartsWith("stage 1, mb 0, F failed: the stage declares bitwise"));
  EXPECT_EQ(outcome_of([](ActionContext<Number>&, Number x) { return x; }, options), "fine");
}

/// Reads a clock through its context, and reports figures.
class CuriousStage final : public Stage<Toy> {
 public:
  asio::awaitable<Toy> forward(ActionContext<Toy>& context, Toy input) override {
    const int ticks = context.recorded("ticks", [this] { return ++ticks_; });
    const std::string host = context.recorded("host", [] { return std::string("example"); });
    context.report("ticks", ticks);
    context.report("letters", static_cast<double>(host.size()));
    co_return input;
  }
  asio::awaitable<Gradients<Toy>> backward(ActionContext<Toy>&, Toy gradient) override {
    co_return Gradients<Toy>(gradient, Toy());
  }
  void accumulate(MicrobatchId, Toy) override {}
  void prepare_update(std::int64_t) override {}
  void commit() noexcept override {}
  void abort() noexcept override {}

 private:
  int ticks_ = 0;
};

TEST(Embedding, OutsideValuesAndFiguresOfEachStageReachTheHost) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  Pipeline<Toy> pipeline(
      plan_of(3, 4), [](const StageContext&) { return std::make_unique<CuriousStage>(); }, options);
  StepResult told;
  pipeline.async_step(toy_batch(0, 4),
                      [&](std::exception_ptr, StepResult result) { told = std::move(result); });
  context.run();
  ASSERT_EQ(told.figures.size(), 2U);
  EXPECT_EQ(told.figures[0].name, "ticks");
  EXPECT_EQ(told.figures[0].sum, 3 * (1 + 2 + 3 + 4));
  EXPECT_EQ(told.figures[1].sum, 3 * 4 * 7);
}

TEST(Embedding, TheLossIsTheSumOfTheLossesOfAllStages) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  const auto losing = [](ActionContext<Number>& at, Number x) {
    at.report_loss(at.action.stage == StageId(0) ? 2 : 5);
    return x;
  };
  const auto backward = [](ActionContext<Number>&, Number g) { return Gradients<Number>(g, {}); };
  Pipeline<Number> pipeline(
      plan_of(3, 4), [&](const StageContext&) { return make_stage<Number>(losing, backward); },
      options);
  StepResult told;
  const auto next = [](MicrobatchId) { return MicrobatchData<Number>(Number{1}, Number{1}, 1); };
  pipeline.async_step(make_batch<Number>(4, next),
                      [&](std::exception_ptr, StepResult result) { told = std::move(result); });
  context.run();
  EXPECT_EQ(told.loss, 2 + 5 + 5);
}

TEST(Embedding, ALossReportedByABackwardIsAnError) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  const auto forward = [](ActionContext<Number>&, Number x) { return x; };
  const auto late = [](ActionContext<Number>& at, Number g) {
    at.report_loss(1);
    return Gradients<Number>(g, {});
  };
  Pipeline<Number> pipeline(
      plan_of(2, 3), [&](const StageContext&) { return make_stage<Number>(forward, late); },
      options);
  std::string told;
  const auto next = [](MicrobatchId) { return MicrobatchData<Number>(Number{1}, Number{1}, 1); };
  pipeline.async_step(make_batch<Number>(3, next),
                      [&](std::exception_ptr error, StepResult) { told = text_of(error); });
  context.run();
  EXPECT_THAT(told, HasSubstr("stage 1, mb 0, B failed: reports a loss or a figure outside"));
}

TEST(Embedding, APlanWithoutOrdersIsRefused) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  PlanConfig config;
  config.stages = 2;
  config.microbatches = 4;
  const auto factory = toy_factory(std::make_shared<ToyHooks>());
  config.detail = Detail::metrics;
  EXPECT_THROW(Pipeline<Toy>(derive_plan(config), factory, options), std::invalid_argument);
  EXPECT_THROW(Pipeline<Toy>(Plan(), factory, options), std::invalid_argument);
}

TEST(Embedding, AStageThatIsProbedReadsItsClockOnce) {
  int reads = 0;
  const auto reading = [&reads](ActionContext<Number>& at, Number x) {
    x.x += at.recorded("clock", [&reads] { return ++reads; });
    return x;
  };
  PipelineOptions options;
  options.probe_determinism = true;
  EXPECT_EQ(outcome_of(reading, options), "fine");
  EXPECT_EQ(reads, 2 * 3);
}

TEST(Embedding, WhatIsAskedForAndCannotBeDoneIsRefused) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  const auto refused = [&options] {
    try {
      Pipeline<Toy>(plan_of(2, 4), toy_factory(std::make_shared<ToyHooks>()), options);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ(refused(), "taken");
  options.check_finite = FiniteCheck::everything;
  EXPECT_THAT(refused(), ::testing::HasSubstr("give WireTraits<Value> a `finite`"));
  options.check_finite = FiniteCheck::none;
  options.probe_determinism = true;
  EXPECT_THAT(refused(), ::testing::HasSubstr("give WireTraits<Value> a `clone`"));
}

TEST(Embedding, MetricsTellADashboardWhatBecameOfAStep) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  std::vector<StepMetrics> seen;
  options.metrics = [&seen](const StepMetrics& metrics) { seen.push_back(metrics); };
  auto hooks = std::make_shared<ToyHooks>();
  bool armed = false;
  hooks->on_enter = [&armed](const Action& action) {
    if (armed && to_string(action) == "1B1") throw std::runtime_error("x");
  };
  Pipeline<Toy> pipeline(plan_of(2, 4), toy_factory(hooks), options);
  StepResult told;
  const auto keep = [&told](std::exception_ptr, StepResult result) { told = std::move(result); };
  const auto run = [&context] {
    context.run();
    context.restart();
  };
  pipeline.async_step(toy_batch(0, 4), keep);
  run();
  ASSERT_EQ(seen.size(), 1U);
  ASSERT_TRUE(seen[0].result);
  EXPECT_EQ(seen[0].result->loss, told.loss);
  EXPECT_EQ(seen[0].result->samples, 8);
  EXPECT_EQ(seen[0].microbatches, 4);
  EXPECT_TRUE(seen[0].training);

  pipeline.async_evaluate(toy_batch(0, 4), {}, keep);
  run();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_FALSE(seen[1].training);
  EXPECT_EQ(seen[1].result->loss, told.loss);
  EXPECT_GT(seen[1].makespan_ns, 0);
  EXPECT_EQ(seen[1].ranks[0].actions, 4);
  EXPECT_EQ(seen[1].ranks[0].peak_held, 1);
  EXPECT_EQ(seen[1].ranks[0].stages[0].peak_held, 1);

  armed = true;
  pipeline.async_step(toy_batch(0, 4), keep);
  run();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[2].error, StepError::Kind::stage_failed);
  EXPECT_EQ(to_string(*seen[2].error), "stage_failed");
  EXPECT_FALSE(seen[2].result);
}

TEST(Embedding, MetricsAccountForTheWholeStep) {
  asio::thread_pool pool(2);
  PipelineOptions options = on(pool.get_executor());
  std::vector<StepMetrics> seen;
  options.metrics = [&seen](const StepMetrics& metrics) { seen.push_back(metrics); };
  auto hooks = std::make_shared<ToyHooks>();
  hooks->yields = [](const Action&) { return 2; };
  Pipeline<Toy> pipeline(plan_of(4, 8), toy_factory(hooks), options);
  pipeline.async_step(toy_batch(0, 8), asio::use_future).get();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_FALSE(seen[0].error);
  EXPECT_GT(seen[0].makespan_ns, 0);
  EXPECT_EQ(seen[0].bubble_planned, pipeline.plan().bubble_of_makespan);
  ASSERT_EQ(seen[0].ranks.size(), 4U);
  for (const RankMetrics& rank : seen[0].ranks) {
    EXPECT_EQ(rank.actions, 16);
    EXPECT_GE(rank.decisions, rank.actions);
    EXPECT_EQ(rank.peak_held, 4 - rank.rank.value);
    EXPECT_LE(rank.busy_ns, seen[0].makespan_ns);
    ASSERT_EQ(rank.stages.size(), 1U);
    EXPECT_EQ(rank.stages[0].stage.value, rank.rank.value);
    EXPECT_EQ(rank.stages[0].actions, rank.actions);
    EXPECT_EQ(rank.stages[0].busy_ns, rank.busy_ns);
    EXPECT_EQ(rank.stages[0].peak_held, rank.peak_held);
  }
  pool.join();
}

/// Suspends, then needs what the lambda captured.
TEST(Embedding, ACoroutineLambdaThatCapturesLivesAsLongAsItsCalls) {
  asio::thread_pool pool(2);
  const auto factory = [](const StageContext&) {
    const std::string captured = "a text too long for the small string optimisation to hold it";
    return make_stage<Toy>(
        [captured](ActionContext<Toy>&, Toy input) -> asio::awaitable<Toy> {
          co_await asio::post(asio::use_awaitable);
          input.x += static_cast<double>(captured.size());
          co_return input;
        },
        [](ActionContext<Toy>&, Toy gradient) { return Gradients<Toy>(gradient, Toy()); });
  };
  Pipeline<Toy> pipeline(plan_of(3, 4), factory, on(pool.get_executor()));
  std::vector<double> outputs;
  pipeline
      .async_evaluate(
          toy_batch(0, 4), [&outputs](MicrobatchId, Toy output) { outputs.push_back(output.x); },
          asio::use_future)
      .get();
  ASSERT_EQ(outputs.size(), 4U);
  EXPECT_EQ(outputs[2], test::ToySource::input(0, MicrobatchId(2)) + 3 * 60);
  pipeline.async_step(toy_batch(0, 4), asio::use_future).get();
  pool.join();
}

TEST(Embedding, AStageMaySplitItsBackwardIntoOrdinaryFunctions) {
  struct Scale {
    double forward(ActionContext<double>& at, double x) {
      inputs[at.action.mb] = x;
      return weight * x;
    }
    Gradients<double> backward(ActionContext<double>& at, double g) {
      return {g * weight, g * inputs.at(at.action.mb)};
    }
    double input_gradient(ActionContext<double>& at, double g) {
      gradients[at.action.mb] = g;
      return g * weight;
    }
    double weight_gradient(ActionContext<double>& at) {
      return gradients.at(at.action.mb) * inputs.at(at.action.mb);
    }
    void accumulate(MicrobatchId, double contribution) { *sum += contribution; }

    double* sum;
    double weight = 2;
    std::map<MicrobatchId, double> inputs = {};
    std::map<MicrobatchId, double> gradients = {};
  };
  std::map<ScheduleName, double> sums;
  for (const ScheduleName schedule : {ScheduleName::one_f_one_b, ScheduleName::zb_h1}) {
    asio::io_context context;
    PlanConfig config;
    config.stages = 3;
    config.microbatches = 5;
    config.schedule = schedule;
    double sum = 0;
    Pipeline<double> pipeline(derive_plan(config),
                              [&](const StageContext&) { return make_stage<double>(Scale{&sum}); },
                              {.executors = single_thread(context.get_executor())});
    const auto next = [](MicrobatchId mb) { return MicrobatchData<double>(mb.value + 1, 0, 1); };
    std::string told;
    pipeline.async_step(make_batch<double>(5, next), [&](std::exception_ptr error, StepResult) {
      told = error ? text_of(error) : "fine";
    });
    context.run();
    EXPECT_EQ(told, "fine");
    sums[schedule] = sum;
  }
  EXPECT_EQ(sums[ScheduleName::zb_h1], sums[ScheduleName::one_f_one_b]);
  EXPECT_GT(sums[ScheduleName::zb_h1], 0);
}

TEST(Embedding, AnExecutorIsRequired) {
  EXPECT_THROW(
      Pipeline<Toy>(plan_of(2, 2), toy_factory(std::make_shared<ToyHooks>()), PipelineOptions()),
      std::invalid_argument);
}

}  // namespace
}  // namespace sluice
