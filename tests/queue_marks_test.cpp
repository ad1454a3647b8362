#include <sluice/queue_marks.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::Each;
using testing::ElementsAre;

PlanConfig shape(ScheduleName schedule, int stages, int microbatches) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.schedule = schedule;
  config.costs.backward = {Time::from_units(2)};
  return config;
}

TEST(QueueMarks, EqualStagesThatFillAndDrainHandOverAtOnce) {
  const QueueMarks marks = queue_marks(derive_plan(shape(ScheduleName::gpipe, 4, 8)));
  EXPECT_THAT(marks.down, Each(0));
  EXPECT_THAT(marks.up, Each(0));
  EXPECT_EQ(marks.down.size(), 3U);
}

TEST(QueueMarks, OneForwardOneBackwardKeepsOneWaiting) {
  const QueueMarks marks = queue_marks(derive_plan(shape(ScheduleName::one_f_one_b, 4, 8)));
  EXPECT_THAT(marks.down, ElementsAre(1, 1, 1));
  EXPECT_THAT(marks.up, Each(0));
}

TEST(QueueMarks, ASlowStageHasAQueueBeforeIt) {
  PlanConfig config = shape(ScheduleName::gpipe, 3, 8);
  config.costs.forward = {Time::from_units(1), Time::from_units(1), Time::from_units(10)};
  EXPECT_THAT(queue_marks(derive_plan(config)).down, ElementsAre(0, 7));
}

TEST(QueueMarks, NothingWaitsBetweenStagesOfOneRank) {
  const QueueMarks marks = queue_marks(derive_plan(shape(ScheduleName::zb_v, 4, 8)));
  EXPECT_EQ(marks.down[1], 0);  // the turn of the V
  EXPECT_EQ(marks.up[1], 0);
}

}  // namespace
}  // namespace sluice
