// What a perceptron's stage promises besides its numbers: nothing kept, nothing half-applied, misuse
// explained, any thread.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/kernels/elementwise.hpp>
#include <sluice/kernels/tensor_pipeline.hpp>
#include <sluice/plain_stage.hpp>

#include "perceptron_by_hand.hpp"

namespace sluice::kernels {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(PerceptronStage, EvaluationKeepsNothingAndScores) {
  ByHand by_hand(2, usual());
  const auto batch = make_batch(0, {8, 3});
  const std::uint64_t before = state_hash(by_hand.hashes());
  const double loss =
      by_hand.forward(0, batch[0], 11, false) + by_hand.forward(1, batch[1], 11, false);
  PlainLoop loop(model, plain(usual()));
  const Score first = loop.evaluate(batch[0]);
  const Score second = loop.evaluate(batch[1]);
  EXPECT_EQ(loss, first.loss + second.loss);
  EXPECT_EQ(by_hand.correct(), static_cast<double>(first.correct + second.correct));
  EXPECT_EQ(state_hash(by_hand.hashes()), before);
  EXPECT_THAT([&] { by_hand.backward(0, batch[0], 11); },
              ThrowsMessage<std::logic_error>(AllOf(HasSubstr("1B0 (stage 1, mb 0, phase B"),
                                                    HasSubstr("check the schedule"))));
}

// All input gradients first, all weight gradients after, the latter backwards: the same bits.
TEST(PerceptronStage, ASplitBackwardEqualsAWholeOne) {
  ByHand whole(3, usual());
  ByHand split(3, usual());
  const auto batch = make_batch(0, {8, 8, 5});
  whole.step(batch);
  std::vector<std::vector<Tensor>> contributions(3);
  for (std::size_t m = 0; m < 3; ++m) split.forward(m, batch[m], 21);
  for (std::size_t m = 0; m < 3; ++m) split.input_gradients(m, batch[m], 21);
  for (std::size_t m = 3; m-- > 0;) contributions[m] = split.weight_gradients(m, 21);
  split.update(std::move(contributions));
  EXPECT_EQ(state_hash(split.hashes()), state_hash(whole.hashes()));
  EXPECT_THROW(split.weight_gradients(0, 21), std::logic_error);
}

TEST(PerceptronStage, AbortLeavesWeightsAndForgetsTheStep) {
  ByHand by_hand(2, usual());
  ByHand untouched(2, usual());
  const auto batch = make_batch(0, {8, 8});
  by_hand.forward(0, batch[0], 16);
  by_hand.forward(1, batch[1], 16);
  for (std::size_t s = 0; s < 2; ++s) {
    auto contributions = by_hand.backward(s, batch[s], 16);
    by_hand.stage(s).accumulate(MicrobatchId(0), std::move(contributions[s]));
    by_hand.stage(s).prepare_update(0);
  }
  by_hand.stage(0).abort();
  by_hand.stage(1).abort();
  EXPECT_EQ(state_hash(by_hand.hashes()), state_hash(untouched.hashes()));
  EXPECT_THROW(by_hand.stage(0).prepare_update(0), std::logic_error);

  by_hand.step(batch);
  untouched.step(batch);
  EXPECT_EQ(state_hash(by_hand.hashes()), state_hash(untouched.hashes()));
}

TEST(PerceptronStage, AFailedPrepareChangesNothing) {
  PerceptronStageOptions options = usual();
  options.sgd.check_finite = true;
  ByHand by_hand(1, options);
  const std::uint64_t before = state_hash(by_hand.hashes());
  const auto batch = make_batch(0, {8});
  by_hand.forward(0, batch[0], 8);
  auto contributions = by_hand.backward(0, batch[0], 8);
  contributions[0].f32().back() = std::numeric_limits<float>::infinity();
  by_hand.stage(0).accumulate(MicrobatchId(0), std::move(contributions[0]));
  EXPECT_THAT([&] { by_hand.stage(0).prepare_update(0); },
              ThrowsMessage<NonFiniteError>(
                  AllOf(HasSubstr("gradient of layers.3"), HasSubstr("found inf"))));
  by_hand.stage(0).abort();
  EXPECT_EQ(state_hash(by_hand.hashes()), before);
}

TEST(PerceptronStage, TheFirstBadNumberIsNamedByItsAction) {
  PerceptronStageOptions options = usual();
  options.sgd.check_finite = true;
  ByHand by_hand(2, options);
  auto batch = make_batch(0, {8, 8});
  batch[1].input.f32()[5] = std::numeric_limits<float>::infinity();
  by_hand.forward(0, batch[0], 16);
  EXPECT_THAT([&] { by_hand.forward(1, batch[1], 16); },
              ThrowsMessage<NonFiniteError>(HasSubstr("0F1 (stage 0, mb 1, phase F, step 0)")));
}

// Buffers are recycled: what an earlier, longer microbatch left in them must not show.
TEST(PerceptronStage, RecycledBuffersDoNotLeak) {
  ByHand fresh(2, usual());
  ByHand used(2, usual());
  auto poison = make_batch(0, {8, 8, 8, 8});
  for (auto& mb : poison) {
    for (float& value : mb.input.f32()) value = std::numeric_limits<float>::quiet_NaN();
  }
  for (std::size_t m = 0; m < poison.size(); ++m) used.forward(m, poison[m], 32);
  for (std::size_t m = 0; m < poison.size(); ++m) {
    auto contributions = used.backward(m, poison[m], 32);
    for (std::size_t s = 0; s < 2; ++s) {
      used.stage(s).accumulate(MicrobatchId(static_cast<std::int64_t>(m)),
                               std::move(contributions[s]));
    }
  }
  used.stage(0).abort();
  used.stage(1).abort();
  const auto ragged = make_batch(1, {8, 8, 3});
  EXPECT_EQ(used.step(ragged), fresh.step(ragged));
  EXPECT_EQ(state_hash(used.hashes()), state_hash(fresh.hashes()));
}

TEST(PerceptronStage, RestoreContinuesWhereTheSnapshotWasTaken) {
  ByHand original(2, usual());
  original.step(make_batch(0, {8, 8}));
  ByHand copy(2, usual());
  for (std::size_t s = 0; s < 2; ++s) {
    copy.stage(s).part().restore(original.stage(s).part().snapshot());
  }
  EXPECT_EQ(state_hash(copy.hashes()), state_hash(original.hashes()));
  original.step(make_batch(1, {8, 8}));
  copy.step(make_batch(1, {8, 8}));
  EXPECT_EQ(state_hash(copy.hashes()), state_hash(original.hashes()));

  EXPECT_THAT([&] { copy.stage(0).part().restore(copy.stage(1).part().snapshot()); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("expected layers.0.weight (32, 20)")));
}

TEST(PerceptronStage, ComputesOnWhateverThreadResumesIt) {
  ByHand here(2, usual());
  ByHand there(2, usual());
  for (int step = 0; step < 3; ++step) {
    const auto batch = make_batch(step, {8, 8, 5});
    const double loss = here.step(batch);
    double loss_there = 0;
    std::thread([&] { loss_there = there.step(batch); }).join();
    EXPECT_EQ(loss_there, loss);
  }
  EXPECT_EQ(state_hash(there.hashes()), state_hash(here.hashes()));
}

TEST(PerceptronStage, MisuseIsExplained) {
  StageContext context;
  context.stages = 3;
  EXPECT_THAT([&] { PerceptronStage(context, model, partition(model, 2), usual()); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("expected a cut of the model into 3 parts, found 2")));

  ByHand by_hand(1, usual());
  auto batch = make_batch(0, {8});
  auto action = by_hand.context(0, Phase::forward, 0, nullptr, 8);
  EXPECT_THAT([&] { get(by_hand.stage(0).forward(action, batch[0].input.clone())); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("0F0")));
  batch[0].labels.s32()[2] = 10;
  EXPECT_THAT([&] { by_hand.forward(0, batch[0], 8); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("label of sample 2"), HasSubstr("expected 0..9, found 10"))));
  EXPECT_THROW(by_hand.stage(0).accumulate(MicrobatchId(0), Tensor()), std::invalid_argument);
}

/// A stage that returns values of another shape than its neighbour, or itself, expects.
struct Misshapen {
  asio::awaitable<Tensor> forward(ActionContext<Tensor>& at, Tensor input) {
    Tensor output = co_await right->forward(at, std::move(input));
    if (*where == to_string(at.action)) output = Tensor::zeros(DType::f32, Dims{8, 17});
    co_return output;
  }
  asio::awaitable<Gradients<Tensor>> backward(ActionContext<Tensor>& at, Tensor gradient) {
    auto gradients = co_await right->backward(at, std::move(gradient));
    const std::string action = to_string(at.action);
    if (*where == action) gradients.input = Tensor::zeros(DType::f32, Dims{8, 15});
    if (*where == action + "'s weights") {
      gradients.contribution = Tensor::zeros(DType::f32, Dims{8});
    }
    co_return gradients;
  }
  void accumulate(MicrobatchId mb, Tensor contribution) {
    right->accumulate(mb, std::move(contribution));
  }
  void prepare_update(std::int64_t step) { right->prepare_update(step); }
  void commit() { right->commit(); }
  void abort() { right->abort(); }

  std::unique_ptr<PerceptronStage> right;
  const std::string* where;
};

TEST(PerceptronStage, AValueOfTheWrongShapeEndsTheStepWithOneErrorThatNamesIt) {
  const auto data = make_batch(0, {8, 8, 8, 8});
  const auto cut = partition(model, 4);
  struct Case {
    std::string where;
    std::string told;
  };
  for (const auto& [where, told] :
       {Case{"1F2", "stage 2, mb 2, F failed: layers.2: input: expected f32 (samples, 16), found"},
        Case{"2B1",
             "stage 1, mb 1, B failed: layers.1: output gradient: expected the shape of the "
             "output, (8, 16), found (8, 15)"},
        Case{"2B3's weights",
             "stage 2, mb 3, B failed: layers.2: gradient contribution: expected"}}) {
    asio::io_context context;
    PipelineOptions options;
    options.executors = single_thread(context.get_executor());
    options.seed = 3;
    std::string bend = where;
    std::vector<PerceptronStage*> stages;
    PlanConfig config;
    config.stages = 4;
    config.microbatches = 4;
    Pipeline<Tensor> pipeline(
        derive_plan(config),
        [&](const StageContext& of) {
          auto right = std::make_unique<PerceptronStage>(of, model, cut, usual());
          stages.push_back(right.get());
          return make_stage<Tensor>(Misshapen{std::move(right), &bend});
        },
        options);
    const std::uint64_t before = state_hash(model_hashes(stages));
    std::vector<std::string> outcomes;
    const auto step = [&] {
      const auto next = [&data](MicrobatchId mb) {
        const auto& microbatch = data[mb.index()];
        return MicrobatchData<Tensor>(microbatch.input.clone(), microbatch.labels.clone(), 8);
      };
      pipeline.async_step(sluice::make_batch<Tensor>(32, next),
                          [&outcomes](std::exception_ptr error, StepResult) {
                            outcomes.push_back(error ? text_of(error) : "fine");
                          });
      context.run();
      context.restart();
    };
    step();
    EXPECT_THAT(outcomes, testing::ElementsAre(testing::StartsWith(told)));
    EXPECT_EQ(state_hash(model_hashes(stages)), before);
    bend.clear();
    step();
    EXPECT_EQ(outcomes.back(), "fine");
    ByHand by_hand(4, usual());
    by_hand.step(data);
    EXPECT_EQ(state_hash(model_hashes(stages)), state_hash(by_hand.hashes())) << where;
  }
}

TEST(PerceptronStage, SaysWhatDecidesItsBits) {
  ByHand by_hand(2, usual());
  EXPECT_EQ(by_hand.stage(0).identity().threads, 1);
  EXPECT_FALSE(by_hand.stage(0).part().implementations().empty());
  EXPECT_GT(by_hand.stage(0).part().cache().misses, 0U);
}

}  // namespace
}  // namespace sluice::kernels
