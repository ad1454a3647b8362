#include <sluice/schedule.hpp>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/schedule_check.hpp>

namespace sluice {
namespace {

/// A rank's actions, comma separated.
std::string row(const Order& order, std::size_t rank) {
  std::string text;
  for (const Action& action : order[rank]) {
    if (!text.empty()) text += ',';
    text += to_string(action);
  }
  return text;
}

TEST(Schedule, NamesAreReadAsTheyAreWritten) {
  for (const char* name : {"drain", "1f1b", "gpipe", "eager-1f1b", "interleaved", "looped-bfs",
                           "zb-h1", "zb-h2", "zb-v", "dualpipe-v"}) {
    const auto parsed = parse_schedule_name(name);
    ASSERT_TRUE(parsed) << name;
    EXPECT_EQ(to_string(*parsed), name);
  }
  EXPECT_FALSE(parse_schedule_name("1F1B"));
  EXPECT_FALSE(parse_schedule_name(""));
  EXPECT_EQ(to_string(ScheduleName::custom), "custom");
  EXPECT_FALSE(parse_schedule_name("custom"));
}

TEST(Schedule, OneForwardOneBackward) {
  const Order order = static_order(4, 8, 3);
  ASSERT_EQ(order.size(), 4U);
  EXPECT_EQ(row(order, 0), "0F0,0F1,0F2,0F3,0B0,0F4,0B1,0F5,0B2,0F6,0B3,0F7,0B4,0B5,0B6,0B7");
  EXPECT_EQ(row(order, 1), "1F0,1F1,1F2,1B0,1F3,1B1,1F4,1B2,1F5,1B3,1F6,1B4,1F7,1B5,1B6,1B7");
  EXPECT_EQ(row(order, 2), "2F0,2F1,2B0,2F2,2B1,2F3,2B2,2F4,2B3,2F5,2B4,2F6,2B5,2F7,2B6,2B7");
  EXPECT_EQ(row(order, 3), "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3F4,3B4,3F5,3B5,3F6,3B6,3F7,3B7");
}

/// One forward, one backward as DeepSpeed writes it: by the clock, 2 (M + S - 1) ticks, a stage runs
/// forwards at ticks of its own parity and backwards at the others.
std::vector<Action> by_the_clock(int stages, int microbatches, int stage) {
  std::vector<Action> actions;
  for (int tick = 0; tick < 2 * (microbatches + stages - 1); ++tick) {
    const bool forward = tick % 2 == stage % 2;
    const int mb = forward ? (tick - stage) / 2 : (tick - (2 * stages - 1 - stage)) / 2;
    const int first = forward ? stage : 2 * stages - 1 - stage;
    if (tick < first || mb >= microbatches) continue;
    actions.emplace_back(StageId(stage), forward ? Phase::forward : Phase::backward,
                         MicrobatchId(mb));
  }
  return actions;
}

TEST(Schedule, TheClockOfDeepSpeedGivesOneForwardOneBackward) {
  for (int stages = 1; stages <= 9; ++stages) {
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      const Order order = static_order(stages, microbatches, stages - 1);
      for (int stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(by_the_clock(stages, microbatches, stage), order[static_cast<std::size_t>(stage)])
            << "-S " << stages << " -M " << microbatches << ", stage " << stage;
      }
    }
  }
}

TEST(Schedule, OneMoreThanOneForwardOneBackward) {
  const Order order = static_order(4, 8, 4);
  EXPECT_EQ(row(order, 0), "0F0,0F1,0F2,0F3,0F4,0B0,0F5,0B1,0F6,0B2,0F7,0B3,0B4,0B5,0B6,0B7");
  EXPECT_EQ(row(order, 3), "3F0,3F1,3B0,3F2,3B1,3F3,3B2,3F4,3B3,3F5,3B4,3F6,3B5,3F7,3B6,3B7");
}

TEST(Schedule, FillAndDrain) {
  const Order order = static_order(4, 8, 8 + 4 - 2);
  EXPECT_EQ(row(order, 0), "0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0B0,0B1,0B2,0B3,0B4,0B5,0B6,0B7");
  EXPECT_EQ(row(order, 3), "3F0,3F1,3F2,3F3,3F4,3F5,3F6,3F7,3B0,3B1,3B2,3B3,3B4,3B5,3B6,3B7");
}

TEST(Schedule, FewerMicrobatchesThanStages) {
  const Order order = static_order(4, 2, 3);
  EXPECT_EQ(row(order, 0), "0F0,0F1,0B0,0B1");
  EXPECT_EQ(row(order, 1), "1F0,1F1,1B0,1B1");
  EXPECT_EQ(row(order, 2), "2F0,2F1,2B0,2B1");
  EXPECT_EQ(row(order, 3), "3F0,3B0,3F1,3B1");
}

TEST(Schedule, OneMicrobatch) {
  for (const int drain_depth : {7, 8, 20}) {
    const Order order = static_order(8, 1, drain_depth);
    for (std::size_t s = 0; s < 8; ++s) {
      EXPECT_EQ(row(order, s), std::to_string(s) + "F0," + std::to_string(s) + "B0");
    }
  }
}

// The listed schedules with eight microbatches, cell by cell.

TEST(Schedule, Interleaved) {
  const Schedule schedule = listed_schedule(ScheduleName::interleaved, 8, 8, 2);
  EXPECT_EQ(row(schedule.order, 0),
            "0F0,0F1,0F2,0F3,4F0,4F1,4F2,4F3,0F4,0F5,0F6,4B0,0F7,4B1,4F4,4B2,4F5,4B3,4F6,0B0,4F7,"
            "0B1,0B2,0B3,4B4,4B5,4B6,4B7,0B4,0B5,0B6,0B7");
  EXPECT_EQ(row(schedule.order, 3),
            "3F0,3F1,3F2,3F3,7F0,7B0,7F1,7B1,7F2,7B2,7F3,7B3,3F4,3B0,3F5,3B1,3F6,3B2,3F7,3B3,7F4,"
            "7B4,7F5,7B5,7F6,7B6,7F7,7B7,3B4,3B5,3B6,3B7");
  EXPECT_THAT(schedule.rank_of, testing::ElementsAre(RankId(0), RankId(1), RankId(2), RankId(3),
                                                     RankId(0), RankId(1), RankId(2), RankId(3)));
}

TEST(Schedule, InterleavedWithAShortLastGroup) {
  const Schedule schedule = listed_schedule(ScheduleName::interleaved, 4, 3, 2);
  EXPECT_EQ(row(schedule.order, 0), "0F0,0F1,2F0,2F1,0F2,2B0,2F2,2B1,0B0,0B1,2B2,0B2");
  EXPECT_EQ(row(schedule.order, 1), "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,3F2,1B1,3B2,1B2");
}

TEST(Schedule, InterleavedFinishesWithAnyNumberOfMicrobatches) {
  for (int ranks = 1; ranks <= 7; ++ranks) {
    for (int chunks = 1; chunks <= 4; ++chunks) {
      for (int microbatches = 1; microbatches <= 3 * ranks; ++microbatches) {
        const auto error = check_schedule(
            listed_schedule(ScheduleName::interleaved, ranks * chunks, microbatches, chunks),
            microbatches);
        EXPECT_FALSE(error) << ranks << ' ' << chunks << ' ' << microbatches << ": "
                            << error->expected;
      }
    }
  }
}

TEST(Schedule, InterleavedMakesAllGroupsLargerWhenTheRestIsTooShort) {
  // Twelve through five ranks: two groups of six, not 5, 5, 2.
  const Order order = listed_schedule(ScheduleName::interleaved, 10, 12, 2).order;
  EXPECT_TRUE(row(order, 0).starts_with("0F0,0F1,0F2,0F3,0F4,0F5,5F0,5F1,5F2,5F3,5F4,5F5,0F6,"));
}

TEST(Schedule, LoopedBreadthFirst) {
  const Schedule schedule = listed_schedule(ScheduleName::looped_bfs, 4, 3, 2);
  EXPECT_EQ(row(schedule.order, 0), "0F0,0F1,0F2,2F0,2F1,2F2,2B2,2B1,2B0,0B2,0B1,0B0");
  EXPECT_EQ(row(schedule.order, 1), "1F0,1F1,1F2,3F0,3F1,3F2,3B2,3B1,3B0,1B2,1B1,1B0");
}

TEST(Schedule, ZeroBubbleH1) {
  const Order order = listed_schedule(ScheduleName::zb_h1, 4, 8, 1).order;
  EXPECT_EQ(row(order, 0),
            "0F0,0F1,0F2,0F3,0I0,0W0,0F4,0I1,0W1,0F5,0I2,0W2,0F6,0I3,0W3,0F7,0I4,0W4,0I5,0W5,0I6,"
            "0W6,0I7,0W7");
  EXPECT_EQ(row(order, 1),
            "1F0,1F1,1F2,1I0,1F3,1I1,1W0,1F4,1I2,1W1,1F5,1I3,1W2,1F6,1I4,1W3,1F7,1I5,1W4,1I6,1W5,"
            "1I7,1W6,1W7");
  EXPECT_EQ(row(order, 2),
            "2F0,2F1,2I0,2F2,2I1,2F3,2I2,2W0,2F4,2I3,2W1,2F5,2I4,2W2,2F6,2I5,2W3,2F7,2I6,2W4,2I7,"
            "2W5,2W6,2W7");
  EXPECT_EQ(row(order, 3),
            "3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3W0,3F4,3I4,3W1,3F5,3I5,3W2,3F6,3I6,3W3,3F7,3I7,3W4,"
            "3W5,3W6,3W7");
}

TEST(Schedule, ZeroBubbleH1WithSeveralStagesARank) {
  const Order order = listed_schedule(ScheduleName::zb_h1, 4, 8, 2).order;
  EXPECT_TRUE(row(order, 0).starts_with("0F0,0F1,2F0,2F1,2I0,2W0,0F2,2I1,2W1,0F3,0I0,0W0,2F2,"));
  EXPECT_TRUE(row(order, 1).starts_with("1F0,1F1,3F0,3I0,3F1,3I1,3W0,1F2,1I0,3W1,1F3,1I1,1W0,"));
}

TEST(Schedule, InterleavedZeroBubbleFinishesWithAnyNumberOfMicrobatches) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    for (int chunks = 1; chunks <= 4; ++chunks) {
      for (int microbatches = 1; microbatches <= 3 * ranks; ++microbatches) {
        const auto error = check_schedule(
            listed_schedule(ScheduleName::zb_h1, ranks * chunks, microbatches, chunks),
            microbatches);
        EXPECT_FALSE(error) << ranks << ' ' << chunks << ' ' << microbatches << ": "
                            << error->expected;
      }
    }
  }
}

TEST(Schedule, ZeroBubbleH2) {
  const Order order = listed_schedule(ScheduleName::zb_h2, 4, 8, 1).order;
  EXPECT_TRUE(row(order, 0).starts_with("0F0,0F1,0F2,0F3,0F4,0F5,0F6,0I0,0F7,"));
  EXPECT_EQ(row(order, 1),
            "1F0,1F1,1F2,1F3,1F4,1I0,1F5,1I1,1F6,1I2,1F7,1I3,1W0,1I4,1W1,1I5,1W2,1I6,1W3,1I7,1W4,"
            "1W5,1W6,1W7");
  EXPECT_EQ(row(order, 2),
            "2F0,2F1,2F2,2I0,2F3,2I1,2F4,2I2,2F5,2I3,2F6,2I4,2F7,2I5,2W0,2I6,2W1,2I7,2W2,2W3,2W4,"
            "2W5,2W6,2W7");
  EXPECT_EQ(row(order, 3),
            "3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3F4,3I4,3F5,3I5,3F6,3I6,3F7,3I7,3W0,3W1,3W2,3W3,3W4,"
            "3W5,3W6,3W7");
}

TEST(Schedule, ZeroBubbleV) {
  const Schedule schedule = listed_schedule(ScheduleName::zb_v, 8, 8, 2);
  EXPECT_EQ(row(schedule.order, 0),
            "0F0,0F1,0F2,0F3,0F4,0F5,0F6,7F0,7I0,7W0,7F1,7I1,7W1,7F2,7I2,7W2,7F3,7I3,7W3,0F7,0I0,"
            "0W0,7F4,7I4,7W4,0I1,0W1,7F5,7I5,7W5,0I2,0W2,7F6,7I6,7W6,0I3,0W3,7F7,7I7,7W7,0I4,0W4,"
            "0I5,0W5,0I6,0W6,0I7,0W7");
  EXPECT_EQ(row(schedule.order, 3),
            "3F0,4F0,3F1,4F1,3F2,4F2,3F3,4F3,4I0,4W0,3F4,3I0,3W0,4F4,4I1,4W1,3F5,3I1,3W1,4F5,4I2,"
            "4W2,3F6,3I2,3W2,4F6,4I3,4W3,3F7,3I3,3W3,4F7,4I4,4W4,3I4,4I5,3I5,4I6,3I6,4I7,3I7,3W4,"
            "4W5,4W6,4W7,3W5,3W6,3W7");
  EXPECT_THAT(schedule.rank_of, testing::ElementsAre(RankId(0), RankId(1), RankId(2), RankId(3),
                                                     RankId(3), RankId(2), RankId(1), RankId(0)));
}

TEST(Schedule, DualPipeV) {
  const Schedule schedule = listed_schedule(ScheduleName::dualpipe_v, 8, 8, 2);
  EXPECT_EQ(row(schedule.order, 0),
            "0F0,0F1,0F2,0F3,0F4,0F5,0F6,7F0,7I0,7W0,7F1,7I1,7W1,7F2,7I2,7W2,7F3,0F7,7B3,7F4,0B0,"
            "7B4,7F5,0B1,7B5,7F6,0B2,7B6,7F7,0B3,7B7,0I4,0W4,0I5,0W5,0I6,0W6,0I7,0W7");
  // (0F7;7B3), (7F4;0B0), (7F5;0B1), (7F6;0B2), (7F7;0B3)
  EXPECT_THAT(schedule.overlapped[0], testing::ElementsAre(17, 19, 22, 25, 28));
  // On the turn of the V the first pair has nothing to overlap.
  EXPECT_THAT(row(schedule.order, 3), testing::HasSubstr("3F4,4B0,4F4,3B0,"));
  EXPECT_EQ(schedule.overlapped[3].front(), 10U);
}

TEST(Schedule, ShapesThatAScheduleCannotHaveAreNamed) {
  EXPECT_EQ(shape_error(ScheduleName::interleaved, 8, 3, 2), "");
  EXPECT_THAT(shape_error(ScheduleName::interleaved, 7, 8, 2), testing::HasSubstr("multiple"));
  EXPECT_THAT(shape_error(ScheduleName::zb_v, 8, 8, 1), testing::HasSubstr("chunks = 2"));
  EXPECT_THAT(shape_error(ScheduleName::zb_h2, 8, 8, 2), testing::HasSubstr("chunks = 1"));
  EXPECT_THAT(shape_error(ScheduleName::dualpipe_v, 8, 7, 2), testing::HasSubstr("stages = 8"));
  EXPECT_THAT(shape_error(ScheduleName::interleaved, 8, 8, 0), testing::HasSubstr("chunks = 0"));
}

}  // namespace
}  // namespace sluice
