// A policy of one's own, in another language, planned with, trained with and replayed without.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_run.hpp"

namespace sluice::test {
namespace {

using testing::HasSubstr;

const std::string backward_first = "'python3 " SLUICE_SOURCE_DIR "/examples/backward_first.py'";

using PolicyCommand = SmallRun;

TEST_F(PolicyCommand, ItsOrderIsThePlan) {
  const auto plan = sluice("plan -S 4 -M 8 --backward 2 --json --policy " + backward_first);
  ASSERT_EQ(plan.code, 0) << plan.err;
  const auto json = plan.json();
  EXPECT_EQ(json["schedule"], "custom");
  EXPECT_EQ(json["order"][3][1], "3B0");
  EXPECT_EQ(json["makespan"], 33);  // equal stages and W = S-1: what 1F1B takes
}

TEST_F(PolicyCommand, AnotherDrainDepthThanItWasAllowedIsTold) {
  const auto plan = sluice("plan -S 4 -M 8 -W 3 --json --policy " + backward_first).json();
  EXPECT_EQ(plan["drain_depth"], 3);
  const std::string one_at_a_time =
      "\"python3 -c 'import sys,json\nfor l in sys.stdin:\n a=json.loads(l)\n if "
      "a[\\\"kind\\\"]==\\\"choose\\\": b=[x for x in a[\\\"ready\\\"] if "
      "x[1]==\\\"B\\\"]; print(json.dumps({\\\"action\\\":(b or "
      "a[\\\"ready\\\"])[0]}),flush=True)'\"";
  const auto deep = sluice("plan -S 2 -M 8 -W 7 --json --policy " + one_at_a_time);
  ASSERT_EQ(deep.code, 0) << deep.err;
  const auto warning = deep.json()["findings"].back();
  EXPECT_EQ(warning["rule"], "drain-depth");
  EXPECT_EQ(warning["found"], "7");
  EXPECT_EQ(warning["expected"], std::to_string(deep.json()["drain_depth"].get<int>()));
}

TEST_F(PolicyCommand, SplitBackwardsComeFromTheSchedule) {
  const auto plan = sluice("plan -S 2 -M 2 --schedule zb-h1 --json --policy " + backward_first);
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_EQ(plan.json()["order"][1][1], "1I0");
}

TEST_F(PolicyCommand, FailuresNameTheOption) {
  const auto dead = sluice("plan -S 2 -M 2 --policy 'exit 3'");
  EXPECT_EQ(dead.code, 2);
  EXPECT_THAT(dead.err,
              HasSubstr("--policy: error: the policy 'exit 3' has ended with exit code 3"));
  EXPECT_EQ(dead.out, "");
  const auto silent = sluice("plan -S 2 -M 2 --policy true");  // to TOML no text
  EXPECT_EQ(silent.code, 2);
  EXPECT_THAT(silent.err,
              HasSubstr("--policy: error: the policy 'true' has ended with exit code 0, "
                        "without an answer; asked {"));
  EXPECT_THAT(sluice("plan -S 2 -M 2 --set pipeline.policy=7").err,
              HasSubstr("the policy '7' has ended with exit code 127"));
}

TEST_F(PolicyCommand, TrainsToTheSameBitsAndReplaysWithoutThePolicy) {
  const auto usual = train("--json");
  ASSERT_EQ(usual.code, 0) << usual.err;
  for (const char* order : {"fixed", "adaptive"}) {
    const std::string recording = path(std::string(order) + ".slrec");
    const auto with_policy =
        train(fmt::format("--json --record {} --policy {} --set pipeline.order={}", recording,
                          backward_first, order));
    ASSERT_EQ(with_policy.code, 0) << with_policy.err;
    EXPECT_EQ(with_policy.json()["weights_hash"], usual.json()["weights_hash"]);

    const auto replay = sluice("replay --json " + recording);
    EXPECT_EQ(replay.code, 0) << replay.out << replay.err;
    EXPECT_EQ(replay.json()["verdict"], "same");
  }
}

TEST_F(PolicyCommand, OneThatDiesInTheMiddleOfARunFailsTheStep) {
  const auto failed =
      train("--json --set pipeline.order=adaptive --policy " + policy_that("sys.exit(7)"));
  EXPECT_EQ(failed.code, 1) << failed.err;
  EXPECT_THAT(failed.err, HasSubstr("has ended with exit code 7, without an answer; asked"));
  EXPECT_EQ(failed.json()["steps"], 0);
}

}  // namespace
}  // namespace sluice::test
