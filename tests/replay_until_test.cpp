// A replay up to a point: it stops before it, lets a debugger in, or goes on live.

#include <atomic>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recorded_run.hpp"
#include "recording_support.hpp"

namespace sluice::replay {
namespace {

using test::Machine;
using test::record_toy;
using test::TempFolder;
using test::toy_config;
using test::ToyRun;
using testing::HasSubstr;

const std::vector<Machine> machines{{0, 0}, {0, 11}, {1, 3}, {2, 5}, {4, 9}};

ToyRun adaptive_run(int steps = 3) {
  ToyRun run;
  run.config = toy_config(4, 9, OrderMode::adaptive);
  run.steps = steps;
  return run;
}

struct Recorded {
  std::shared_ptr<const Recording> recording;
  test::ToyOutcome outcome;
};

Recorded recorded(const ToyRun& run, Machine machine = {2, 6}) {
  const TempFolder folder;
  Recorded result;
  result.outcome = record_toy(run, folder.file("a"), machine);
  result.recording = Recording::open(folder.file("a"));
  return result;
}

struct Stopped {
  std::shared_ptr<Replayer> replayer;
  test::ToyOutcome outcome;
};

/// Replays `steps` steps, whatever the replayer says of more.
Stopped replay(const ToyRun& run, const std::shared_ptr<const Recording>& recording,
               Machine machine, ReplayOptions options, bool live = false) {
  const Plan plan = derive_plan(run.config);
  Stopped result;
  result.replayer = std::make_shared<Replayer>(
      recording, plan, std::make_shared<LiveDirector>(policy_for(plan)), options);
  result.outcome =
      test::run_toy(run, result.replayer, machine, [&] { return live || result.replayer->more(); });
  return result;
}

/// The lines of a step's log before `seq`, and which actions they start.
std::set<Action> started_before(const RecordedStep& step, std::int64_t seq) {
  std::set<Action> started;
  std::int64_t next = step.first_seq;
  for (const Event& event : merge_events(step.ranks)) {
    if (event.kind != Event::Kind::enter && event.kind != Event::Kind::exit) continue;
    if (next++ == seq) break;
    if (event.kind == Event::Kind::enter) started.insert(event.action);
  }
  return started;
}

TEST(ReplayPoint, IsFoundBySeqAndByAction) {
  const auto [recording, outcome] = recorded(adaptive_run());
  const std::int64_t lines = 4 * 4 * 9;
  for (std::int64_t seq = 1; seq <= 3 * lines; seq += 7) {
    const ReplayPoint point = point_of(*recording, std::nullopt, seq);
    EXPECT_EQ(point.seq, seq);
    EXPECT_EQ(point.step, (seq - 1) / lines);
    EXPECT_EQ(point_of(*recording, point.step, seq).action, point.action);
    if (!point.ends) {
      EXPECT_EQ(point_of(*recording, point.step, point.action).seq, seq);
    }
  }
}

std::string refusal(const std::function<void()>& ask) {
  try {
    ask();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(ReplayPoint, ThatIsNotThereIsRefusedWithWhatThereIs) {
  const auto [recording, outcome] = recorded(adaptive_run());
  const Recording& r = *recording;
  const Action action(StageId(2), Phase::input_gradient, MicrobatchId(3));
  EXPECT_THAT(refusal([&] { point_of(r, std::nullopt, 433); }), HasSubstr("expected 1 to 432"));
  EXPECT_THAT(refusal([&] { point_of(r, std::nullopt, 0); }), HasSubstr("seq 0: expected 1 to"));
  EXPECT_THAT(refusal([&] { point_of(r, 1, 144); }), HasSubstr("seq 144: expected 145 to 288"));
  EXPECT_THAT(refusal([&] { point_of(r, 3, 1); }), HasSubstr("step 3: expected 0 to 2"));
  EXPECT_THAT(refusal([&] { point_of(r, 1, action); }), HasSubstr("2I3 did not start in step 1"));
  EXPECT_THAT(refusal([&] { point_of(r, 1, action); }), HasSubstr("there is: 2F3 2B3"));
}

TEST(ReplayUntil, NothingAtOrBehindThePointStarts) {
  const ToyRun run = adaptive_run();
  const auto [recording, outcome] = recorded(run);
  for (const std::int64_t seq : {1, 2, 40, 145, 200, 201, 287, 288, 431, 432}) {
    ReplayOptions options;
    options.until = point_of(*recording, std::nullopt, seq);
    const RecordedStep step = recording->step(static_cast<std::size_t>(options.until->step));
    for (const Machine& machine : machines) {
      ToyRun counted = run;
      std::mutex mutex;
      std::set<Action> started;
      counted.on_enter = [&](const Action& action) {
        const std::scoped_lock lock(mutex);
        if (action == Action()) started.clear();  // 0F0 begins a step
        started.insert(action);
      };
      if (seq == step.first_seq) counted.on_enter = nullptr;
      const auto [replayer, stopped] = replay(counted, recording, machine, options);
      EXPECT_EQ(replayer->verdict(), Verdict::same);
      EXPECT_TRUE(replayer->reached());
      EXPECT_FALSE(replayer->more());
      EXPECT_EQ(replayer->steps(), static_cast<std::size_t>(options.until->step) + 1);
      EXPECT_THAT(stopped.errors.back(), HasSubstr("stopped before " + to_string(*options.until)));
      EXPECT_EQ(started, counted.on_enter ? started_before(step, seq) : std::set<Action>());
    }
  }
}

TEST(ReplayUntil, AStepBehindThePointDoesNotStart) {
  const ToyRun run = adaptive_run();
  const auto [recording, outcome] = recorded(run);
  ReplayOptions options;
  options.until = point_of(*recording, 1, Action(StageId(1), Phase::forward, MicrobatchId(2)));
  const auto [replayer, stopped] = replay(run, recording, {0, 0}, options, true);
  EXPECT_EQ(stopped.errors[0], "");
  EXPECT_THAT(stopped.errors[2], HasSubstr("the replay has stopped before step 1, stage 1, mb 2"));
  EXPECT_EQ(replayer->verdict(), Verdict::same);
}

TEST(ReplayUntil, ADifferenceBeforeThePointIsFound) {
  const auto [recording, outcome] = recorded(adaptive_run());
  ToyRun changed = adaptive_run();
  changed.weight = [](StageId) { return 0.3; };
  ReplayOptions options;
  options.until = point_of(*recording, 0, Action(StageId(1), Phase::backward, MicrobatchId(2)));
  const auto [replayer, stopped] = replay(changed, recording, {2, 0}, options);
  EXPECT_EQ(replayer->verdict(), Verdict::diverged);
}

TEST(ReplayUntil, HandsOverLive) {
  for (const OrderMode order : {OrderMode::adaptive, OrderMode::fixed}) {
    ToyRun run = adaptive_run();
    run.config.order = order;
    const auto [recording, outcome] = recorded(run);
    for (const std::int64_t seq : {1, 77, 145, 220, 432}) {
      ReplayOptions options;
      options.until = point_of(*recording, std::nullopt, seq);
      options.then = HandOver::live;
      for (const Machine& machine : machines) {
        const auto [replayer, live] = replay(run, recording, machine, options, true);
        // The recorded part, then the run's own: numbers depend on no order.
        EXPECT_EQ(live.errors, std::vector<std::string>(3));
        EXPECT_EQ(live.weights, outcome.weights);
        EXPECT_EQ(replayer->verdict(), Verdict::same);
        const RecordedStep step = recording->step(static_cast<std::size_t>(options.until->step));
        // Each rank begins as recorded.
        const auto before = events_before(step, *options.until);
        const auto ran = test::sequences(live.logs[static_cast<std::size_t>(step.number)], 4);
        for (std::size_t r = 0; r < 4; ++r) {
          std::size_t actions = 0;
          for (std::size_t i = 0; i < before[r]; ++i) {
            if (step.ranks[r][i].kind != Event::Kind::enter) continue;
            EXPECT_EQ(ran[r][actions++], step.ranks[r][i].action);
          }
        }
      }
    }
  }
}

TEST(ReplayUntil, LiveGoesOnBehindTheRecording) {
  ToyRun run = adaptive_run(2);
  const auto [recording, outcome] = recorded(run);
  run.steps = 4;
  ReplayOptions options;
  options.until = point_of(*recording, 1, Action(StageId(0), Phase::forward, MicrobatchId(0)));
  options.then = HandOver::live;
  const auto [replayer, live] = replay(run, recording, {2, 1}, options, true);
  EXPECT_EQ(live.weights, test::toy_plain_loop(4, 9, 4));
}

TEST(ReplayUntil, AFailureBehindTheHandOverIsNotCalledTheSame) {
  ToyRun run = adaptive_run();
  const auto [recording, outcome] = recorded(run);
  int entered = 0;
  for (const int live_in : {1, 2}) {  // in the step of the hand-over, and in the one after it
    run.on_enter = [&entered, live_in](const Action& action) {
      if (to_string(action) != "3B8" || ++entered != live_in + 1) return;
      throw std::runtime_error("not while it was recorded");
    };
    entered = 0;
    ReplayOptions options;
    options.until = point_of(*recording, 1, Action(StageId(1), Phase::forward, MicrobatchId(3)));
    options.then = HandOver::live;
    const auto [replayer, live] = replay(run, recording, {2, 1}, options, true);
    EXPECT_THAT(live.errors.at(static_cast<std::size_t>(live_in)),
                HasSubstr("not while it was recorded"));
    EXPECT_EQ(replayer->verdict(), Verdict::failed_live);
  }
}

TEST(ReplayUntil, NobodyToHandOverToIsRefused) {
  const ToyRun run = adaptive_run();
  const auto [recording, outcome] = recorded(run);
  ReplayOptions options;
  options.until = point_of(*recording, std::nullopt, 5);
  options.then = HandOver::live;
  EXPECT_THROW(Replayer(recording, derive_plan(run.config), nullptr, options),
               std::invalid_argument);
}

TEST(ReplayUntil, AfterABreakTheReplayGoesOn) {
  const ToyRun run = adaptive_run();
  const auto [recording, outcome] = recorded(run);
  for (const std::int64_t seq : {1, 2, 145, 200, 432}) {
    ReplayOptions options;
    options.until = point_of(*recording, std::nullopt, seq);
    options.then = HandOver::resume;
    for (const Machine& machine : machines) {
      const auto [replayer, again] = replay(run, recording, machine, options);
      EXPECT_EQ(replayer->verdict(), Verdict::same);
      EXPECT_EQ(again.weights, outcome.weights);
      EXPECT_EQ(replayer->steps(), 3U);
    }
  }
}

TEST(ReplayUntil, AFailureIsReachedAndNotRun) {
  ToyRun run = adaptive_run(2);
  std::atomic<int> thrown{0};
  std::atomic<int> step{0};
  run.on_enter = [&](const Action& action) {
    if (action == Action()) ++step;
    if (step == 2 && to_string(action) == "2B3") ++thrown, throw std::domain_error("a NaN");
  };
  const auto [recording, outcome] = recorded(run);
  ASSERT_EQ(outcome.errors[1], "stage 2, mb 3, B failed: a NaN");
  for (const Machine& machine : machines) {
    thrown = step = 0;
    ReplayOptions options;
    options.until = point_of(*recording, 1, Action(StageId(2), Phase::backward, MicrobatchId(3)));
    const auto [replayer, stopped] = replay(run, recording, machine, options);
    EXPECT_EQ(thrown, 0);
    EXPECT_TRUE(replayer->reached());
    options.then = HandOver::resume;
    step = 0;
    const auto [resumed, failed] = replay(run, recording, machine, options);
    EXPECT_EQ(thrown, 1);
    EXPECT_EQ(resumed->verdict(), Verdict::failed_as_recorded);
  }
}

}  // namespace
}  // namespace sluice::replay
