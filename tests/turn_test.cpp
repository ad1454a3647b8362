// A turn: how long a rank goes on before others on its executor are let in.
#include <sluice/pipeline.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "toy_pipeline.hpp"

namespace sluice {
namespace {

using test::Toy;
using testing::ElementsAre;

/// What happens on the executor of a pipeline of one stage, whose first action leaves a message there.
std::vector<std::string> happened(std::chrono::nanoseconds turn, int yields) {
  asio::io_context context(1);
  std::vector<std::string> happened;
  auto hooks = std::make_shared<test::ToyHooks>();
  hooks->on_enter = [&](const Action& action) {
    happened.push_back(to_string(action));
    if (happened.size() == 1) asio::post(context, [&] { happened.emplace_back("other work"); });
  };
  hooks->yields = [yields](const Action&) { return yields; };
  PipelineOptions options;
  options.executors =
      StageExecutors([&](RankId) -> asio::any_io_executor { return context.get_executor(); }, turn);
  PlanConfig config;
  config.stages = 1;
  config.microbatches = 2;
  config.schedule = ScheduleName::gpipe;
  Pipeline<Toy> pipeline(derive_plan(config), test::toy_factory(hooks), options);
  pipeline.async_step(test::toy_batch(0, 2), [&](std::exception_ptr error, StepResult) {
    EXPECT_FALSE(error);
    happened.emplace_back("step ended");
  });
  context.run();
  return happened;
}

TEST(Turn, WithoutOneEveryActionLetsOthersIn) {
  EXPECT_THAT(happened(std::chrono::nanoseconds(0), 0),
              ElementsAre("0F0", "other work", "0F1", "0B0", "0B1", "step ended"));
}

TEST(Turn, InALongOneARankWithWorkTakesNoTripThroughTheQueue) {
  EXPECT_THAT(happened(std::chrono::hours(1), 0),
              ElementsAre("0F0", "0F1", "0B0", "0B1", "other work", "step ended"));
}

TEST(Turn, AStageFunctionThatSuspendsLetsOthersIn) {
  EXPECT_THAT(happened(std::chrono::hours(1), 1),
              ElementsAre("0F0", "other work", "0F1", "0B0", "0B1", "step ended"));
}

}  // namespace
}  // namespace sluice
