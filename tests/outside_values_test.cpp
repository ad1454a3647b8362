// Values from outside: recorded before the action sees them, and read from the recording on replay.

#include <atomic>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/plain_stage.hpp>

#include "recorded_run.hpp"
#include "recording_support.hpp"

namespace sluice::replay {
namespace {

using test::Machine;
using test::record_toy;
using test::replay_toy;
using test::TempFolder;
using test::Toy;
using test::ToyRun;
using testing::HasSubstr;

using Context = ActionContext<Toy>;

/// Three stages that add to what they are given what `read` brings in from outside.
ToyRun run_reading(std::function<double(Context&)> read) {
  ToyRun run;
  run.config = test::toy_config(3, 5, OrderMode::adaptive);
  run.steps = 2;
  run.factory = [read](const StageContext&) {
    return make_stage<Toy>([read](Context& context, Toy x) { return Toy{x.x + read(context)}; },
                           [read](Context& context, Toy x) {
                             return Gradients<Toy>(Toy{x.x * read(context)}, Toy());
                           });
  };
  return run;
}

/// A clock that never shows the same twice, in any process.
double clock() {
  static std::atomic<int> calls{static_cast<int>(::getpid() % 1000)};
  return 1.0 + ++calls / 1e6;
}

TEST(OutsideValues, AreReplayed) {
  for (const Machine& made_on : {Machine{0, 1}, Machine{2, 1}}) {
    const TempFolder folder;
    const ToyRun run = run_reading([](Context& context) {
      return context.recorded("clock", clock) + context.recorded("clock", clock);
    });
    const auto recorded = record_toy(run, folder.file("a"), made_on);
    const auto recording = Recording::open(folder.file("a"));
    ASSERT_EQ(recording->step(1).outside[2].size(), 2U * 2 * 5);
    EXPECT_EQ(recording->step(1).outside[2][0].name, "clock");
    for (const Machine& replayed_on : {Machine{0, 0}, Machine{1, 5}, Machine{4, 2}}) {
      int asked = 0;
      const ToyRun again = run_reading([&asked](Context& context) {
        const auto never = [&asked] { return ++asked, 0.0; };
        return context.recorded("clock", never) + context.recorded("clock", never);
      });
      const auto replay = replay_toy(again, recording, replayed_on);
      EXPECT_EQ(replay.replayer->verdict(), Verdict::same);
      EXPECT_EQ(asked, 0);
      EXPECT_TRUE(test::same_events(replay.outcome.logs[1], recorded.logs[1]));
    }
  }
}

TEST(OutsideValues, OfAnySizeAreReplayed) {
  for (const std::size_t size : {0UL, 1UL, 4040UL, 4050UL, 4060UL, 4100UL, 50'000UL}) {
    const TempFolder folder;
    const auto run = [size](char fill) {
      return run_reading([size, fill](Context& context) {
        const std::string text = context.recorded("page", [&] { return std::string(size, fill); });
        EXPECT_EQ(text, std::string(size, 'x'));
        return 1.0;
      });
    };
    record_toy(run('x'), folder.file("a"), {2, 1});
    const auto replay = replay_toy(run('y'), Recording::open(folder.file("a")), {2, 7});
    EXPECT_EQ(replay.replayer->verdict(), Verdict::same) << size;
  }
}

TEST(OutsideValues, AReadThatThrewThrowsAgain) {
  const TempFolder folder;
  const auto run = [](bool fails) {
    return run_reading([fails](Context& context) {
      return context.recorded("network", [&context, fails]() -> double {
        if (fails && to_string(context.action) == "1B2") throw std::runtime_error("no route");
        return 1;
      });
    });
  };
  const auto recorded = record_toy(run(true), folder.file("a"), {2, 1});
  EXPECT_EQ(recorded.errors[0], "stage 1, mb 2, B failed: no route");
  const auto replay = replay_toy(run(false), Recording::open(folder.file("a")), {0, 0});
  EXPECT_EQ(replay.replayer->verdict(), Verdict::failed_as_recorded);
  EXPECT_EQ(replay.outcome.errors, recorded.errors);
}

TEST(OutsideValues, AnotherReadIsFound) {
  const TempFolder folder;
  const auto run = [](const char* name, int times) {
    return run_reading([name, times](Context& context) {
      double sum = 1;
      for (int i = 0; i < 2; ++i) {
        const bool here = to_string(context.action) == "2F1";
        if (here && i >= times) break;
        sum += context.recorded(here ? name : "clock", [] { return 1.0; });
      }
      if (times > 2 && to_string(context.action) == "2F1") {
        context.recorded("clock", [] { return 1.0; });
      }
      return sum;
    });
  };
  record_toy(run("clock", 2), folder.file("a"), {2, 1});
  const auto recording = Recording::open(folder.file("a"));
  const auto check = [&](const ToyRun& changed, const std::string& wanted) {
    for (const Machine& machine : {Machine{0, 0}, Machine{2, 3}}) {
      const auto replay = replay_toy(changed, recording, machine);
      ASSERT_TRUE(replay.replayer->divergence());
      EXPECT_EQ(replay.replayer->divergence()->kind, DivergenceClass::outside);
      EXPECT_EQ(replay.replayer->divergence()->stage, StageId(2));
      EXPECT_EQ(replay.replayer->divergence()->mb, MicrobatchId(1));
      EXPECT_EQ(replay.replayer->divergence()->found, wanted);
    }
  };
  check(run("calendar", 2), "2F1 reads `calendar`");
  check(run("clock", 1), "2F1 ends without reading it");
  check(run("clock", 3), "2F1 reads `clock`");
}

TEST(OutsideValues, WithoutRoomOnTheDiskTheStepFails) {
  const TempFolder folder;
  const ToyRun run = run_reading([](Context& context) {
    const bool large = context.step == 1 && to_string(context.action) == "1F3";
    context.recorded("page", [&] { return std::string(large ? 1'000'000 : 10, 'x'); });
    return 1.0;
  });
  test::ToyOutcome recorded;
  {
    const test::FileSizeLimit limit(500'000);
    recorded = record_toy(run, folder.file("a"), {2, 1});
  }
  EXPECT_EQ(recorded.errors[0], "");
  EXPECT_THAT(recorded.errors[1], HasSubstr("stage 1, mb 3, F failed"));
  EXPECT_THAT(recorded.errors[1], HasSubstr("free disk space"));
  const auto recording = Recording::open(folder.file("a"));
  ASSERT_EQ(recording->steps(), 2U);
  EXPECT_TRUE(recording->step(1).complete);
  EXPECT_EQ(recording->step(1).error, recorded.errors[1]);
}

TEST(OutsideValues, WhereTheRecordingEndsTheOutsideIsAsked) {
  const TempFolder folder;
  // Killed inside the first action of rank 0, after its first read.
  {
    RecordingWriter writer(folder.file("a"), test::small_header(3));
    const Plan plan = derive_plan(test::toy_config(3, 5, OrderMode::adaptive));
    for (int r = 0; r < 3; ++r) {
      test::append_order(writer.rank(RankId(r)), plan.order[static_cast<std::size_t>(r)], 3);
      writer.rank(RankId(r)).append(format::Kind::step, 0);
    }
    writer.rank(RankId(0)).append_planned();
    std::string fields = std::string("\0\5clock\x8", 8);
    fields.append(8, '\0');
    writer.rank(RankId(0)).append_bytes(format::Kind::outside, std::as_bytes(std::span(fields)));
  }
  int asked = 0;
  const ToyRun run = run_reading([&asked](Context& context) {
    const auto read = [&asked] { return ++asked, 1.0; };
    return context.recorded("clock", read) + context.recorded("clock", read);
  });
  const auto replay = replay_toy(run, Recording::open(folder.file("a")), {0, 0});
  EXPECT_EQ(replay.replayer->verdict(), Verdict::recording_ends);
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace sluice::replay
