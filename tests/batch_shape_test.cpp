#include <sluice/batch_shape.hpp>

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

BatchShape batch(std::int64_t global, std::int64_t micro, std::int64_t replicas = 1,
                 std::int64_t accumulation = 1) {
  BatchShape result;
  result.global = global;
  result.micro = micro;
  result.replicas = replicas;
  result.accumulation = accumulation;
  return result;
}

BatchShape ragged(std::int64_t global, std::int64_t micro) {
  BatchShape result = batch(global, micro);
  result.ragged = true;
  return result;
}

TEST(BatchShape, ReplicasCountNotAllTheRanks) {
  // Eight ranks are four stages of two replicas.
  EXPECT_EQ(microbatches_of(batch(256, 4, 2)), 32);
  EXPECT_FALSE(check_batch(batch(256, 4, 2), 32));
  EXPECT_TRUE(check_batch(batch(256, 4, 2), 8));
}

TEST(BatchShape, EveryFactorIsNamedAndSoIsWhatFits) {
  const auto finding = check_batch(batch(8, 2), 1);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->rule, "batch");
  EXPECT_EQ(finding->key, "global");
  EXPECT_THAT(
      finding->message,
      AllOf(HasSubstr("global = 8: expected micro = 2 times microbatches = 1, which makes 2"),
            HasSubstr("microbatches = 4"), HasSubstr("micro = 8"), HasSubstr("replicas = 4")));
  EXPECT_THAT(
      check_batch(batch(100, 3, 2, 5), 4)->message,
      HasSubstr("micro = 3 times microbatches = 4 times accumulation = 5 times replicas = 2, "
                "which makes 120"));
}

TEST(BatchShape, AMicrobatchLargerThanTheBatchLeavesNoMicrobatch) {
  EXPECT_EQ(microbatches_of(batch(4, 8)), std::nullopt);
  EXPECT_THAT(
      check_batch(batch(4, 8))->message,
      AllOf(HasSubstr("a multiple of micro = 8, which makes 8, which is more than there is"),
            HasSubstr("global = 8")));
  EXPECT_TRUE(check_batch(batch(4, 8), 1));
}

TEST(BatchShape, AShortLastMicrobatchWhenAskedFor) {
  EXPECT_EQ(microbatches_of(batch(8, 3)), std::nullopt);
  EXPECT_THAT(check_batch(batch(8, 3))->message, HasSubstr("ragged = true"));
  EXPECT_EQ(microbatches_of(ragged(8, 3)), 3);
  EXPECT_FALSE(check_batch(ragged(8, 3), 3));
  EXPECT_THAT(samples_of(ragged(8, 3), 3), ElementsAre(3, 3, 2));
  EXPECT_EQ(microbatches_of(ragged(4, 8)), 1);
}

TEST(BatchShape, ARampIsCheckedBeforeItsFirstStep) {
  std::vector<std::int64_t> ramp;
  for (std::int64_t global = 16; global <= 1536; global += 16) ramp.push_back(global);
  EXPECT_FALSE(check_ramp(batch(1536, 1, 8), ramp));
  EXPECT_EQ(microbatches_of(batch(16, 1, 8)), 2);
  EXPECT_EQ(microbatches_of(batch(1536, 1, 8)), 192);
  const auto finding = check_ramp(batch(1536, 1, 8), {16, 28, 36});
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->message, AllOf(HasSubstr("ramp = 28"), HasSubstr("replicas = 8"),
                                      HasSubstr("ramp = 24 or ramp = 32")));
}

TEST(BatchShape, NoProductOverflows) {
  constexpr std::int64_t huge = std::numeric_limits<std::int32_t>::max();
  EXPECT_TRUE(check_batch(batch(8, huge, huge, huge), huge));
  EXPECT_TRUE(check_batch(batch(8, huge, huge, huge)));
}

}  // namespace
}  // namespace sluice
