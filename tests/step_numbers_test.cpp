// What a step computes, whatever order it runs in: each microbatch meets its own activation, its own loss and
// its own target, in its own shape; every stage counts M contributions; means are means.
#include <sluice/pipeline.hpp>

#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/plain_stage.hpp>

#include "toy_pipeline.hpp"
#include "toy_run.hpp"

namespace sluice {

/// A value that knows which microbatch it is of, with as many numbers as that has.
struct Tagged {
  int tag = -1;
  std::vector<double> numbers;
};

namespace {

using test::on;
using test::plan_of;
using test::Toy;
using test::toy_batch;
using test::weights_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A schedule whose backwards run from the last microbatch to the first: each must find the input of its own
// forward, and the gradient must be summed as if they had run in ascending order.
TEST(StepNumbers, DescendingBackwardsFindTheirOwnActivationsAndSumToTheSameBits) {
  Schedule schedule;
  for (int s = 0; s < 2; ++s) {
    std::vector<Action> order;
    for (int mb = 0; mb < 4; ++mb) order.emplace_back(StageId(s), Phase::forward, MicrobatchId(mb));
    for (int mb = 3; mb >= 0; --mb) {
      order.emplace_back(StageId(s), Phase::backward, MicrobatchId(mb));
    }
    schedule.order.push_back(std::move(order));
    schedule.rank_of.emplace_back(s);
  }
  test::ToyRun run;
  run.config.stages = 2;
  run.config.microbatches = 4;
  run.config.custom = schedule;
  run.steps = 3;
  for (unsigned threads : {0U, 2U}) {
    const auto outcome = test::run_toy(run, nullptr, test::Machine{threads, 3});
    EXPECT_THAT(outcome.errors, ElementsAre("", "", ""));
    EXPECT_EQ(outcome.weights, test::toy_plain_loop(2, 4, 3));
  }
}

/// y = x, and on the last stage loss_mb = (mb + 1) * y; sums what it is told of its gradient.
struct Weighted {
  double forward(ActionContext<double>& at, double x) {
    if (at.target == nullptr) return x;
    losses[at.action.mb.index()] = static_cast<double>(at.action.mb.value + 1);
    return x;
  }
  Gradients<double> backward(ActionContext<double>& at, double y) {
    const double gradient = at.target != nullptr ? losses[at.action.mb.index()] : y;
    return {gradient, gradient};
  }
  void accumulate(MicrobatchId, double part) { *sum += part; }

  double* sum;
  std::vector<double> losses = std::vector<double>(4);
};

TEST(StepNumbers, EveryMicrobatchKeepsItsOwnLossUntilItsBackward) {
  PlanConfig config;
  config.stages = 2;
  config.microbatches = 4;
  config.schedule = ScheduleName::gpipe;  // all forwards first: the last loss would be the only one
  double sum = 0;
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  Pipeline<double> pipeline(
      derive_plan(config),
      [&sum](const StageContext& at) {
        static double ignored;
        return make_stage<double>(Weighted{at.stage == StageId(0) ? &sum : &ignored});
      },
      options);
  const auto ones = [](MicrobatchId) { return MicrobatchData<double>(1, 1, 1); };
  auto step = pipeline.async_step(make_batch<double>(4, ones), asio::use_future);
  context.run();
  step.get();
  EXPECT_EQ(sum, 1 + 2 + 3 + 4);
}

struct TagChecking {
  Tagged forward(ActionContext<Tagged>& at, Tagged input) {
    if (at.target != nullptr && at.target->tag != input.tag) {
      throw std::runtime_error("the activation is of " + std::to_string(input.tag) +
                               ", the label of " + std::to_string(at.target->tag));
    }
    sizes->at(at.action.stage.index()).at(at.action.mb.index()) = input.numbers.size();
    return input;
  }
  Gradients<Tagged> backward(ActionContext<Tagged>&, Tagged gradient) {
    return {std::move(gradient), Tagged()};
  }

  std::vector<std::vector<std::size_t>>* sizes;
};

/// One step over `data`; returns the text of its error. `sizes`: what each stage saw, by microbatch.
std::string run_tagged(const std::vector<MicrobatchData<Tagged>>& data,
                       std::vector<std::vector<std::size_t>>& sizes) {
  const int microbatches = static_cast<int>(data.size());
  sizes.assign(3, std::vector<std::size_t>(data.size()));
  asio::thread_pool pool(2);
  Pipeline<Tagged> pipeline(
      plan_of(3, microbatches),
      [&sizes](const StageContext&) { return make_stage<Tagged>(TagChecking{&sizes}); },
      on(pool.get_executor()));
  const auto next = [&data](MicrobatchId mb) { return data[mb.index()]; };
  try {
    pipeline.async_step(make_batch<Tagged>(microbatches, next), asio::use_future).get();
    return "";
  } catch (const StepError& error) {
    return error.what();
  }
}

MicrobatchData<Tagged> tagged(int tag, int label, std::size_t size) {
  return {Tagged{tag, std::vector<double>(size, tag)}, Tagged{label, {}}, 1};
}

TEST(StepNumbers, ALabelMeetsTheActivationOfItsOwnMicrobatchWhateverTheShapes) {
  std::vector<std::vector<std::size_t>> sizes;
  EXPECT_EQ(run_tagged({tagged(0, 0, 5), tagged(1, 1, 7), tagged(2, 2, 5), tagged(3, 3, 7)}, sizes),
            "");
  for (const auto& of_stage : sizes) EXPECT_THAT(of_stage, ElementsAre(5, 7, 5, 7));
  // A source that pairs them wrongly is found where they meet, not by a shape that does not fit.
  EXPECT_EQ(run_tagged({tagged(0, 0, 5), tagged(1, 2, 7), tagged(2, 1, 5), tagged(3, 3, 7)}, sizes),
            "stage 2, mb 1, F failed: the activation is of 1, the label of 2");
}

TEST(StepNumbers, ALongerSecondMicrobatchArrivesWholeOnEveryStage) {
  constexpr std::size_t channels = 2;
  std::vector<std::vector<std::size_t>> sizes;
  EXPECT_EQ(
      run_tagged({tagged(0, 0, 4 * 2262 * channels), tagged(1, 1, 4 * 2361 * channels)}, sizes),
      "");
  for (const auto& of_stage : sizes) {
    EXPECT_THAT(of_stage, ElementsAre(4 * 2262 * channels, 4 * 2361 * channels));
  }
}

/// The same 32 samples in slices of `samples`: y = w * x per sample, the loss its mean square.
double gradient_of_32_samples(int microbatches) {
  using Samples = std::vector<double>;
  struct Squares {
    Samples forward(ActionContext<Samples>& at, Samples x) {
      double loss = 0;
      for (double& each : x) {
        loss += each * each / 2;
        each = each * each / static_cast<double>(at.batch_samples);  // d loss / d w, at w = 1
      }
      at.report_loss(loss);
      return x;
    }
    Gradients<Samples> backward(ActionContext<Samples>&, Samples gradient) {
      return {Samples(), std::move(gradient)};
    }
    void accumulate(MicrobatchId, Samples part) {
      *sum = std::accumulate(part.begin(), part.end(), *sum);
    }
    double* sum;
  };
  double sum = 0;
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  Pipeline<Samples> pipeline(
      plan_of(1, microbatches),
      [&sum](const StageContext&) { return make_stage<Samples>(Squares{&sum}); }, options);
  const int each = 32 / microbatches;
  const auto next = [each](MicrobatchId mb) {
    Samples slice(static_cast<std::size_t>(each));
    std::iota(slice.begin(), slice.end(), 1.0 + mb.value * each);
    return MicrobatchData<Samples>(slice, slice, each);
  };
  auto step = pipeline.async_step(make_batch<Samples>(32, next), asio::use_future);
  context.run();
  EXPECT_EQ(step.get().loss, 32.0 * 33 * 65 / 6 / 2 / 32);  // a mean over samples too
  return sum;
}

TEST(StepNumbers, AGradientIsAMeanOverSamplesHoweverTheBatchIsCut) {
  EXPECT_EQ(gradient_of_32_samples(4), gradient_of_32_samples(16));
  EXPECT_EQ(gradient_of_32_samples(1), gradient_of_32_samples(32));
}

// In the middle of a step the host asks for another shape: refused, and the step goes on with its own.
TEST(StepNumbers, APlanDoesNotChangeInsideAStepAndEveryStageCountsMContributions) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  std::vector<int> contributions(3);
  struct Counting {
    Toy forward(ActionContext<Toy>&, Toy x) { return x; }
    Gradients<Toy> backward(ActionContext<Toy>&, Toy g) { return {g, Toy()}; }
    void accumulate(MicrobatchId mb, Toy) { EXPECT_EQ(mb.value, (*count)++); }
    int* count;
  };
  Pipeline<Toy> pipeline(
      plan_of(3, 4),
      [&](const StageContext& at) {
        return make_stage<Toy>(Counting{&contributions[at.stage.index()]});
      },
      options);
  std::string refusal;
  auto batch = make_batch<Toy>(4, [&](MicrobatchId mb) {
    if (mb == MicrobatchId(2)) {
      auto other = toy_batch(0, 7);
      other.microbatches = 7;
      pipeline.async_step(std::move(other), [&refusal](std::exception_ptr error, StepResult) {
        refusal = text_of(error);
      });
    }
    return MicrobatchData<Toy>(Toy{1}, Toy{1}, 1);
  });
  auto step = pipeline.async_step(std::move(batch), asio::use_future);
  context.run();
  step.get();
  EXPECT_THAT(refusal, HasSubstr("a step is running already"));
  EXPECT_THAT(contributions, ElementsAre(4, 4, 4));
}

}  // namespace
}  // namespace sluice
