#include <sluice/partition.hpp>

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Partition, AsEvenAsItGoes) {
  EXPECT_THAT(even_partition(46, 4), ElementsAre(12, 12, 11, 11));
  EXPECT_THAT(even_partition(8, 4), ElementsAre(2, 2, 2, 2));
}

TEST(Partition, LayersThatNoStageHasAreListed) {
  const std::vector<int> fours(8, 4);
  const auto finding = check_partition(40, fours);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->message, AllOf(HasSubstr("layers = 40 in all, found 32"),
                                      HasSubstr("8 are on no stage: layers 32 to 39"),
                                      HasSubstr("[5, 5, 5, 5, 5, 5, 5, 5]")));
  EXPECT_EQ(finding->key, "partition");
  EXPECT_EQ(finding->expected, "40");
  EXPECT_EQ(finding->found, "32");
  EXPECT_FALSE(check_partition(32, fours));
  EXPECT_THAT(check_partition(30, fours)->message, HasSubstr("2 of them do not exist"));
}

TEST(Partition, AStageWithoutALayer) {
  const std::vector<int> hole{2, 0, 2};
  EXPECT_THAT(check_partition(4, hole)->message, HasSubstr("found 0 for stage 1"));
}

TEST(Partition, AnEvenSplitThatDoesNotExist) {
  const auto finding = check_even_partition(46, 4);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->message,
              AllOf(HasSubstr("layers = 46"), HasSubstr("stages = 4"), HasSubstr("2, 23, 46"),
                    HasSubstr("12 on 2 stages and 11 on 2")));
  EXPECT_EQ(finding->key, "layers");
  EXPECT_EQ(finding->expected, "a multiple of 4");
  EXPECT_EQ(finding->found, "46");
  EXPECT_FALSE(check_even_partition(48, 4));
}

}  // namespace
}  // namespace sluice
