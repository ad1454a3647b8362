// Outputs that take their time, are lost, or come twice between the ranks: PipelineOptions::carry.
#include <sluice/delivery.hpp>

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>

#include "toy_model.hpp"

namespace sluice {
namespace {

using testing::HasSubstr;

Plan plan_of(int stages, int microbatches, OrderMode order = OrderMode::fixed) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.order = order;
  return derive_plan(config);
}

/// A pipeline on a context of its own.
struct Carried {
  explicit Carried(const Plan& plan) {
    options.executors = replay::serial_per_rank(context, plan.ranks);
    options.alarm = replay::virtual_alarm(context);
    options.carry = [this](const Action& action, Delivery delivery) {
      carry(action, std::move(delivery));
    };
    pipeline.emplace(plan, test::toy_factory(hooks), options);
  }

  std::string step(std::chrono::nanoseconds deadline = {}) {
    std::string told = "never completed";
    const int microbatches = pipeline->plan().microbatches;
    auto batch = test::toy_batch(0, microbatches);
    batch.deadline = deadline;
    pipeline->async_step(std::move(batch),
                         [&told](const std::exception_ptr& error, const StepResult&) {
                           told = error ? text_of(error) : "";
                         });
    context.run();
    return told;
  }

  replay::DeterministicContext context;
  PipelineOptions options;
  std::shared_ptr<test::ToyHooks> hooks = std::make_shared<test::ToyHooks>();
  Carry carry;
  std::optional<Pipeline<test::Toy>> pipeline;
};

TEST(Delivery, WhatTakesItsTimeChangesNoNumberAndIsNotCalledStuck) {
  for (const OrderMode order : {OrderMode::fixed, OrderMode::adaptive}) {
    const Plan plan = plan_of(4, 8, order);
    Carried run(plan);
    int crossings = 0;
    run.carry = [&](const Action&, const Delivery& delivery) {
      run.context.call_after(1000 + ++crossings % 7, delivery);
    };
    EXPECT_EQ(run.step(), "");
    EXPECT_EQ(crossings, 2 * 3 * 8);
    std::vector<double> weights;
    weights.reserve(4);
    for (int s = 0; s < 4; ++s) {
      weights.push_back(static_cast<test::ToyStage&>(run.pipeline->stage(StageId(s))).weight());
    }
    EXPECT_EQ(weights, test::toy_plain_loop(4, 8, 1));
  }
}

TEST(Delivery, WhatIsLostEndsAsStuckAndTheGraphSaysWhere) {
  for (const char* lost : {"1F2", "1B1", "3F0", "0B7"}) {
    const Action taker = *parse_action(lost);
    Carried run(plan_of(4, 8));
    run.carry = [taker](const Action& action, const Delivery& delivery) {
      if (action != taker) delivery();
    };
    const std::string told = run.step();
    const int from = taker.stage.value + (taker.phase == Phase::forward ? -1 : 1);
    EXPECT_THAT(told, HasSubstr("stuck:"));
    EXPECT_THAT(told, HasSubstr(fmt::format(
                          "waits for {} (its input has left rank {} and was lost on the way)", lost,
                          from)));
    run.carry = [](const Action&, const Delivery& delivery) { delivery(); };
    EXPECT_EQ(run.step(), "") << "the next step is as good as any";
  }
}

TEST(Delivery, WhatComesTwiceEndsTheStep) {
  const Action taker = *parse_action("2F3");
  Carried run(plan_of(4, 8));
  run.carry = [taker](const Action& action, const Delivery& delivery) {
    delivery();
    if (action == taker) delivery();
  };
  EXPECT_THAT(run.step(), HasSubstr("the input of 2F3 was delivered twice"));
}

// Whoever keeps a delivery for ever keeps nobody: a deadline ends the step, and says what is on its way.
TEST(Delivery, WhatNeverComesIsWaitedForNoLongerThanTheDeadline) {
  std::vector<Delivery> kept;
  Carried run(plan_of(3, 4));
  run.carry = [&kept](const Action& action, const Delivery& delivery) {
    if (action == *parse_action("1F1")) {
      kept.push_back(delivery);
    } else {
      delivery();
    }
  };
  const std::string told = run.step(std::chrono::seconds(1));
  EXPECT_THAT(told, HasSubstr("exceeded its deadline"));
  EXPECT_THAT(told, HasSubstr("waits for 1F1 (its input has left rank 0 and is on its way)"));
  ASSERT_EQ(kept.size(), 1);
  kept.front()();  // too late, and nobody minds
  kept.front()();
  run.context.run();
  run.carry = [](const Action&, const Delivery& delivery) { delivery(); };
  EXPECT_EQ(run.step(), "");
}

// It comes when its rank has ended, and the step is still there: another rank cannot let go of it.
TEST(Delivery, WhatComesTooLateIsDropped) {
  std::vector<Delivery> kept;
  const Plan plan = plan_of(3, 4);
  Carried run(plan);
  run.carry = [&](const Action& action, const Delivery& delivery) {
    if (action != *parse_action("1F1")) return delivery();
    kept.push_back(delivery);
    run.context.stop_lane(3);  // rank 2's worker
    run.pipeline->cancel();
  };
  std::string told = "never completed";
  run.pipeline->async_step(test::toy_batch(0, 4),
                           [&told](const std::exception_ptr& error, const StepResult&) {
                             told = error ? text_of(error) : "";
                           });
  run.context.run();
  EXPECT_EQ(told, "never completed");
  ASSERT_EQ(kept.size(), 1);
  kept.front()();
  run.context.resume_lane(3);
  run.context.run();
  EXPECT_THAT(told, HasSubstr("cancelled"));
}

// The step is cancelled while an action runs, so that its output is for a rank that has ended by then.
TEST(Delivery, NothingIsCarriedToARankThatHasEnded) {
  Carried run(plan_of(3, 4));
  const Action last = *parse_action("0F1");
  run.hooks->on_enter = [&](const Action& action) {
    if (action == last) run.pipeline->cancel();
  };
  run.hooks->yields = [&](const Action& action) { return action == last ? 50 : 0; };
  bool lost = false;
  run.carry = [&lost](const Action& action, const Delivery& delivery) {
    if (action != *parse_action("1F1")) return delivery();
    lost = true;
  };
  EXPECT_THAT(run.step(), HasSubstr("cancelled"));
  EXPECT_FALSE(lost);
}

TEST(Delivery, ACarrierThatThrowsFailsTheStep) {
  Carried run(plan_of(3, 4));
  run.carry = [](const Action& action, const Delivery& delivery) {
    if (action == *parse_action("2F1")) throw std::runtime_error("the cable is gone");
    delivery();
  };
  EXPECT_THAT(run.step(), HasSubstr("the cable is gone"));
}

TEST(Delivery, AContextThatGoesTakesWhatIsUnderWayWithIt) {
  std::vector<Delivery> kept;
  {
    Carried run(plan_of(3, 4));
    run.carry = [&kept](const Action&, const Delivery& delivery) { kept.push_back(delivery); };
    EXPECT_EQ(run.step(), "never completed");
    EXPECT_FALSE(kept.empty());
  }
  for (const Delivery& delivery : kept) delivery();
}

TEST(Delivery, FromAnyThread) {
  asio::thread_pool pool(2);
  asio::thread_pool wires(2);
  PipelineOptions options;
  options.executors = strand_per_rank(pool.get_executor());
  options.carry = [&wires](const Action&, const Delivery& delivery) {
    asio::post(wires, delivery);
  };
  Pipeline<test::Toy> pipeline(plan_of(4, 64),
                               test::toy_factory(std::make_shared<test::ToyHooks>()), options);
  for (int step = 0; step < 20; ++step) {
    pipeline.async_step(test::toy_batch(step, 64), asio::use_future).get();
  }
  wires.join();
  pool.join();
}

}  // namespace
}  // namespace sluice
