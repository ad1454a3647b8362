#include <sluice/devices.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/schedule.hpp>

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Devices, EveryRankOfEveryReplicaHasOne) {
  EXPECT_FALSE(check_devices({8, {}}, 2, one_stage_a_rank(4)));
  EXPECT_FALSE(check_devices({8, {4, 4}}, 2, one_stage_a_rank(4)));
}

TEST(Devices, TheStageThatWouldStayEmptyIsNamed) {
  const auto finding = check_devices({6, {}}, 2, one_stage_a_rank(4));
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->rule, "devices");
  EXPECT_EQ(finding->stage, StageId(2));
  EXPECT_THAT(finding->message,
              AllOf(HasSubstr("count = 6: expected ranks = 4 times replicas = 2, which makes 8"),
                    HasSubstr("stage 2 of replica 1 would stay empty"), HasSubstr("count = 8")));
}

TEST(Devices, RanksCountNotStages) {
  const Schedule two_a_rank = listed_schedule(ScheduleName::interleaved, 8, 8, 2);
  EXPECT_FALSE(check_devices({4, {}}, 1, two_a_rank.rank_of));
  EXPECT_THAT(check_devices({3, {}}, 1, two_a_rank.rank_of)->message,
              HasSubstr("stage 3 of replica 0"));
}

TEST(Devices, WhatWouldStayIdleAndInWhichGroup) {
  EXPECT_THAT(check_devices({16, {8, 8}}, 3, one_stage_a_rank(4))->message,
              AllOf(HasSubstr("4 would stay idle"),
                    HasSubstr("4 of the 8 in group 1 would be used"), HasSubstr("replicas = 4")));
}

TEST(Devices, GroupsThatAreNotTheDevices) {
  const auto finding = check_devices({8, {4, 2}}, 2, one_stage_a_rank(4));
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->key, "groups");
  EXPECT_THAT(finding->message, AllOf(HasSubstr("groups = [4, 2]"), HasSubstr("found 6")));
}

}  // namespace
}  // namespace sluice
