// One global batch in several passes: gradients stay from one to the next, the last one updates.
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <asio/io_context.hpp>

#include <sluice/pipeline.hpp>

#include "toy_pipeline.hpp"

namespace sluice {
namespace {

using test::plan_of;
using test::Toy;
using test::toy_batch;
using test::toy_factory;
using test::ToyHooks;
using test::ToyStage;
using test::weights_of;

/// Four of a step's eight microbatches, from `offset` on.
class Half final : public BatchSource<Toy> {
 public:
  explicit Half(int offset) : offset_(offset) {}
  asio::awaitable<MicrobatchData<Toy>> next(MicrobatchId mb) override {
    const MicrobatchId whole(mb.value + offset_);
    co_return MicrobatchData<Toy>(Toy{test::ToySource::input(0, whole)},
                                  Toy{test::ToySource::target(0, whole)}, 2);
  }

 private:
  int offset_;
};

TEST(Accumulation, GradientsAccumulateOverPassesUntilOneUpdates) {
  // Two passes of 4 microbatches do to the weights what one of 8 does.
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  Pipeline<Toy> pipeline(plan_of(3, 4), toy_factory(std::make_shared<ToyHooks>()), options);
  const auto before = weights_of(pipeline);
  double loss = 0;
  for (int pass : {0, 1}) {
    Batch<Toy> batch(std::make_shared<Half>(4 * pass), 16);
    batch.update = pass == 1;
    pipeline.async_step(batch, [&](std::exception_ptr error, StepResult result) {
      EXPECT_EQ(error, nullptr);
      EXPECT_EQ(result.samples, 8);
      loss += result.loss;
    });
    context.run();
    context.restart();
    if (pass == 0) {
      EXPECT_EQ(weights_of(pipeline), before);
    }
  }
  EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(3, 8, 1));

  Pipeline<Toy> whole(plan_of(3, 8), toy_factory(std::make_shared<ToyHooks>()), options);
  double whole_loss = 0;
  whole.async_step(toy_batch(0, 8),
                   [&](std::exception_ptr, StepResult result) { whole_loss = result.loss; });
  context.run();
  EXPECT_NEAR(loss, whole_loss, 1e-12);
}

TEST(Accumulation, APassThatFailsDropsThoseBeforeItToo) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  for (const char* failing : {"0F0", "1B2", "2F3", "0B3"}) {
    bool armed = false;
    auto hooks = std::make_shared<ToyHooks>();
    hooks->on_enter = [&](const Action& action) {
      if (armed && to_string(action) == failing) throw std::runtime_error("x");
    };
    Pipeline<Toy> pipeline(plan_of(3, 4), toy_factory(hooks), options);
    const auto before = weights_of(pipeline);
    const auto failed = [&](Batch<Toy> batch) {
      bool error = false;
      pipeline.async_step(std::move(batch), [&error](std::exception_ptr thrown, StepResult) {
        error = thrown != nullptr;
      });
      context.run();
      context.restart();
      return error;
    };
    const auto pass = [](int offset, bool update) {
      Batch<Toy> batch(std::make_shared<Half>(offset), 16);
      batch.update = update;
      return batch;
    };
    EXPECT_FALSE(failed(pass(0, false)));
    armed = true;
    EXPECT_TRUE(failed(pass(4, true))) << failing;
    armed = false;
    EXPECT_EQ(weights_of(pipeline), before);
    for (StageId s(0); s.value < 3; s = s.next()) {
      EXPECT_EQ(static_cast<ToyStage&>(pipeline.stage(s)).kept(), 0U);
      EXPECT_EQ(static_cast<ToyStage&>(pipeline.stage(s)).commits, 0);
    }
    // Nothing of the passes is in the next ones, or they would do more to the weights.
    EXPECT_FALSE(failed(pass(0, false)));
    EXPECT_FALSE(failed(pass(4, true)));
    EXPECT_EQ(weights_of(pipeline), test::toy_plain_loop(3, 8, 1)) << failing;
  }
}

TEST(Accumulation, AFailedEvaluationLeavesAccumulatedGradientsAlone) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  const auto weights_after = [&](bool evaluate_between) {
    Pipeline<Toy> pipeline(plan_of(3, 4), toy_factory(std::make_shared<ToyHooks>()), options);
    for (bool update : {false, true}) {
      auto batch = toy_batch(0, 4);
      batch.samples = 16;
      batch.update = update;
      pipeline.async_step(batch,
                          [](std::exception_ptr error, StepResult) { EXPECT_EQ(error, nullptr); });
      context.run();
      context.restart();
      if (update || !evaluate_between) continue;
      pipeline.async_evaluate(toy_batch(0, 4, 2), {}, [](std::exception_ptr error, StepResult) {
        EXPECT_NE(error, nullptr);
      });
      context.run();
      context.restart();
    }
    return weights_of(pipeline);
  };
  EXPECT_EQ(weights_after(true), weights_after(false));
}

}  // namespace
}  // namespace sluice
