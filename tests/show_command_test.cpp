// sluice show, end to end: a recording as log, pictures, steps, stages and microbatches.

#include <cstddef>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recorded_small_run.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ShowCommand : public RecordedSmallRun {};

TEST_F(ShowCommand, GivesTheLogOfTheRun) {
  ASSERT_EQ(record("--log " + path("run.log")).code, 0);
  std::string log = read_text(folder_ / "run.log");
  std::string without_times;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = log.find('\n', at);
    without_times += log.substr(at, log.find(" t=", at) - at) + '\n';
    at = end + 1;
  }
  EXPECT_EQ(show("--format log").out, without_times);
  EXPECT_EQ(show("--format log --seq 2..3").out,
            without_times.substr(without_times.find('\n') + 1,
                                 without_times.find("seq=0004") - without_times.find('\n') - 1));
}

TEST_F(ShowCommand, DrawsTheRecordedOrderUnderThePlannedOne) {
  ASSERT_EQ(record("--set pipeline.order=adaptive").code, 0);
  EXPECT_THAT(show("--format svg").out,
              AllOf(HasSubstr("<svg"), HasSubstr("planned"), HasSubstr("step 4 as recorded")));
  EXPECT_THAT(show("--format html --step 1").out,
              AllOf(HasSubstr("<html"), HasSubstr("step 1 as recorded")));
  const auto trace = show("--format trace");
  EXPECT_EQ(trace.code, 0);
  EXPECT_TRUE(trace.json().is_object() || trace.json().is_array());
}

TEST_F(ShowCommand, LooksAtStepsStagesAndMicrobatches) {
  ASSERT_EQ(record().code, 0);
  const auto all = show();
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.out,
              AllOf(HasSubstr("5 steps of 4 stages on 4 ranks, 8 microbatches; mode verify"),
                    HasSubstr("\nisa "), HasSubstr("steps 0..4        applied"),
                    HasSubstr("the order of step 4, under the planned costs:\nstage 0 |0 1 "),
                    HasSubstr("every action as planned")));
  EXPECT_THAT(show("--mb 3 --step 1").out,
              AllOf(HasSubstr("microbatch 3 in step 1: F0 F1 F2 F3 B3 B2 B1 B0\n"),
                    HasSubstr("enter 2F3\n"), HasSubstr("exit 2F3 with output ")));
  EXPECT_THAT(show("--stage 2").out,
              AllOf(HasSubstr("enter 2F0"), HasSubstr("enter 2B7"), Not(HasSubstr("enter 1F0"))));

  const auto json = show("--json").json();
  EXPECT_EQ(json["closed"], true);
  EXPECT_EQ(json["stages"], 4);
  EXPECT_TRUE(json["identity"].contains("isa"));
  EXPECT_THAT(json["config"].get<std::string>(), HasSubstr("stages = 4"));
  ASSERT_EQ(json["steps"].size(), 5);
  EXPECT_EQ(json["steps"][4]["events"].size(), 128);
  EXPECT_TRUE(json["steps"][4]["unplanned"].empty());
  EXPECT_EQ(show("--json --step 2 --mb 0").json()["steps"][0]["events"].size(), 16);

  EXPECT_THAT(show("--mb 8").err, HasSubstr("--mb: error: 8: expected 0 to 7"));
  EXPECT_THAT(show("--stage 4").err, HasSubstr("--stage: error: 4: expected 0 to 3"));
  EXPECT_THAT(show("--step 5").err, HasSubstr("--step: error: 5: expected 0 to 4"));
  EXPECT_THAT(show("--seq 5..x").err, HasSubstr("--seq: error: 5..x: expected one number"));
  EXPECT_THAT(show("--seq ''").err, HasSubstr("--seq: error: : expected one number"));
  EXPECT_THAT(show("--seq 5..1").err,
              HasSubstr("--seq: error: 5..1: expected the smaller number first, like 1..5"));
}

TEST_F(ShowCommand, LooksAtARankWithAllItsStages) {
  ASSERT_EQ(record("--set pipeline.schedule=interleaved --set pipeline.chunks=2").code, 0);
  EXPECT_THAT(show("--rank 1").out,
              AllOf(HasSubstr("enter 1F0"), HasSubstr("enter 3F0"), Not(HasSubstr("enter 0F0")),
                    Not(HasSubstr("enter 2F0"))));
  EXPECT_THAT(show("--rank 2").err, HasSubstr("--rank: error: 2: expected 0 to 1"));
}

}  // namespace
}  // namespace sluice::test
