// What sluice plan says of mistakes: what was given, where, what was expected, and what to change.

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.hpp"

namespace sluice::test {
namespace {

using testing::HasSubstr;

struct Mistake {
  const char* name;
  std::string file;       ///< the configuration; empty: none
  std::string arguments;  ///< besides it
  std::vector<std::string> told;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class PlanMistake : public testing::TestWithParam<Mistake> {};

TEST_P(PlanMistake, IsToldAndEndsWithTwo) {
  const Folder folder;
  std::string arguments = "plan " + GetParam().arguments;
  if (!GetParam().file.empty()) arguments += ' ' + folder.file("run.toml", GetParam().file);
  const auto plan = sluice(arguments);
  EXPECT_EQ(plan.code, 2);
  EXPECT_EQ(plan.out, "");
  for (const std::string& part : GetParam().told) EXPECT_THAT(plan.err, HasSubstr(part));
}

const std::string shape = "[pipeline]\nstages = 4\nmicrobatches = 8\n";

INSTANTIATE_TEST_SUITE_P(
    All, PlanMistake,
    testing::Values(
        Mistake{"NothingGiven",
                "",
                "",
                {"error: pipeline.stages is missing", "error: pipeline.microbatches is missing",
                 "no default"}},
        Mistake{"MicrobatchesMissing",
                "[pipeline]\nstages = 4\n",
                "",
                {"run.toml: error: pipeline.microbatches is missing", "-M"}},
        Mistake{"MicrobatchesMissingWhereARankHasSeveralStages",
                "[pipeline]\nstages = 8\nchunks = 2\nschedule = \"interleaved\"\n",
                "",
                {"microbatches is missing", "with 8 stages in all 32 for one"}},
        Mistake{"StagesZero",
                "[pipeline]\nstages = 0\nmicrobatches = 8\n",
                "",
                {"run.toml:2:10: error: shape: stages = 0: expected 1 to"}},
        Mistake{"StagesZeroAsAnOption", "", "-S 0 -M 8", {"-S: error: shape: stages = 0"}},
        Mistake{"MicrobatchesZero", "", "-S 4 -M 0", {"-M: error: shape: microbatches = 0"}},
        Mistake{"DrainDepthNegative", shape, "-W -1", {"-W: error: drain-depth: drain_depth = -1"}},
        Mistake{"UnknownKey",
                "[pipeline]\nstagse = 4\nmicrobatches = 8\n",
                "",
                {"run.toml:2:1: error: pipeline.stagse: unknown key; did you mean 'stages'?"}},
        Mistake{"UnknownSection",
                shape + "[cost]\nforward = 1\n",
                "",
                {"run.toml:4:2: error: [cost]: unknown section; did you mean 'costs'?"}},
        Mistake{"ValueInsteadOfSection",
                shape.substr(11) + "costs = 3\n",
                "",
                {"costs = 3: expected a section; write [costs]"}},
        Mistake{"WrongType",
                "[pipeline]\nstages = \"four\"\nmicrobatches = 8\n",
                "",
                {"run.toml:2:10: error: pipeline.stages = 'four': expected a whole number"}},
        Mistake{"FractionOfAStage",
                "[pipeline]\nstages = 4.5\nmicrobatches = 8\n",
                "",
                {"pipeline.stages = 4.5: expected a whole number"}},
        Mistake{"TooLarge", "", "-S 4 -M 99999999999", {"microbatches = 99999999999: expected"}},
        Mistake{"NotToml", "[pipeline\nstages = 4\n", "", {"run.toml:1:", "error: "}},
        Mistake{"WordAsCost",
                shape + "[costs]\nforward = [1, \"x\"]\n",
                "",
                {"run.toml:5:11: error: costs.forward = [ 1, 'x' ]: expected a number"}},
        Mistake{"InfiniteCost", shape + "[costs]\nlink = inf\n", "", {"costs.link = inf"}},
        Mistake{"CostsOfTheWrongLength",
                shape,
                "--forward 1,2,3",
                {"--forward: error: costs: forward = a list of 3", "each of the 4 stages"}},
        Mistake{"NegativeCost", shape, "--forward -1", {"--forward: error: costs: forward = -1"}},
        Mistake{"CreditsBesideDrainDepth",
                shape,
                "-W 3 --credits 4,3,2,1",
                {"--credits: error: drain-depth: credits = [4, 3, 2, 1]"}},
        Mistake{
            "CreditOfNothing", shape, "--credits 4,3,0,1", {"pipeline.credits = [ 4, 3, 0, 1 ]"}},
        Mistake{"ScheduleWithAnotherDrainDepth",
                shape,
                "--schedule gpipe -W 2",
                {"-W: error: drain-depth: drain_depth = 2: expected 7"}},
        Mistake{"UnknownSchedule",
                shape,
                "--schedule 2f2b",
                {"pipeline.schedule = '2f2b': expected drain, 1f1b, gpipe"}},
        Mistake{
            "NoSlots", "", "-S 2 -M 2 --slots 0", {"--slots: error: slots: slots = 0", "cycle"}},
        Mistake{
            "BatchThatDoesNotFit",
            shape + "[batch]\nglobal = 100\nmicro = 32\n",
            "",
            {"run.toml:5:10: error: batch: global = 100: expected micro = 32 times microbatches = "
             "8, which makes 256",
             "nearest that fit: global = 256"}},
        Mistake{
            "BatchOfOneMicrobatch",
            "[pipeline]\nstages = 1\nmicrobatches = 1\n[batch]\nglobal = 8\nmicro = 2\n",
            "",
            {"micro = 2 times microbatches = 1, which makes 2", "microbatches = 4", "micro = 8"}},
        Mistake{"MicrobatchLargerThanTheBatch",
                "[pipeline]\nstages = 1\nmicrobatches = 1\n[batch]\nglobal = 4\nmicro = 8\n",
                "",
                {"micro = 8 times microbatches = 1, which makes 8", "micro = 4"}},
        Mistake{"DevicesThatLeaveAStageEmpty",
                shape + "[batch]\nglobal = 32\nmicro = 2\nreplicas = 2\n[devices]\ncount = 6\n",
                "",
                {"run.toml:9:9: error: devices: count = 6: expected ranks = 4 times replicas = 2",
                 "stage 2 of replica 1 would stay empty"}},
        Mistake{"RampThatDoesNotFit",
                shape + "[batch]\nglobal = 32\nmicro = 2\nreplicas = 2\nramp = [8, 14]\n",
                "",
                {"run.toml:8:8: error: batch: ramp = 14: expected a multiple of micro = 2 times "
                 "replicas = 2"}},
        Mistake{"BatchWithoutAWholeM",
                "[pipeline]\nstages = 4\n[batch]\nglobal = 10\nmicro = 3\n",
                "",
                {"run.toml:4:10: error: batch: global = 10: expected a multiple of micro = 3",
                 "global = 9 or global = 12", "ragged = true"}},
        Mistake{"UnknownOption", shape, "--ordr fixed", {"unknown option '--ordr'", "'--order'"}},
        Mistake{"UnknownFormat",
                shape,
                "--format xml",
                {"xml not in {text,json,csv,log,svg,html,trace}"}},
        Mistake{"NoSuchFile", "", "missing.toml", {"missing.toml: error: cannot be read"}},
        Mistake{"AFolder", "", "/", {"/: error: cannot be read"}},
        Mistake{"NoSuchOutputFolder",
                shape,
                "-o /missing/x",
                {"/missing/x: error: cannot be "
                 "written"}}),
    [](const auto& mistake) { return mistake.param.name; });

TEST(PlanCommand, ShowsEveryMistakeAtOnce) {
  const Folder folder;
  const auto plan = sluice("plan " + folder.file("run.toml",
                                                 "[pipeline]\nstages = \"x\"\nmicrobatchs = 8\n"
                                                 "[costs]\nlink = \"y\"\n"));
  EXPECT_EQ(plan.code, 2);
  EXPECT_EQ(std::count(plan.err.begin(), plan.err.end(), '\n'), 4) << plan.err;
}

TEST(PlanCommand, RejectedConfigurationsAreJsonToo) {
  const auto plan = sluice("plan -S 0 -M 0 --json");
  EXPECT_EQ(plan.code, 2);
  ASSERT_EQ(plan.json()["findings"].size(), 2);
  EXPECT_EQ(plan.json()["findings"][0]["severity"], "error");
  EXPECT_EQ(plan.json()["findings"][0]["key"], "stages");
}

TEST(PlanCommand, ATimeBeyondWhatCanBeCountedIsRefused) {
  for (const char* time : {"9223372036854775807", "1000000000000000001", "1e13"}) {
    const auto plan = sluice(fmt::format("plan -S 2 -M 2 --forward {}", time));
    EXPECT_EQ(plan.code, 2) << time;
    EXPECT_THAT(plan.err, HasSubstr("expected a number below 9e12"));
  }
}

TEST(PlanCommand, FullDiskIsAnError) {
  const auto plan = sluice("plan -S 4 -M 8 -o /dev/full");
  EXPECT_EQ(plan.code, 2);
  EXPECT_THAT(plan.err, HasSubstr("/dev/full: error: cannot be written"));
}

TEST(PlanCommand, AKeyGivenTwiceIsToldWhoeverGivesIt) {
  for (const std::string twice :
       {"-S 4 --set pipeline.stages=5", "-S 4 --set costs.link=1 --set costs.link=2",
        "-S 4 --overhead 1 --set costs.overhead=1", "-S 4 -S 5"}) {
    const auto plan = sluice("plan -M 8 " + twice);
    EXPECT_EQ(plan.code, 2) << twice;
    EXPECT_EQ(plan.out, "");
  }
  EXPECT_THAT(sluice("plan -S 4 -M 8 --set pipeline.stages=5").err,
              HasSubstr("--set pipeline.stages=5: error: pipeline.stages has been given by -S"));
}

TEST(PlanCommand, AnEmptyValueIsNoValue) {
  EXPECT_THAT(sluice("plan -S '' -M 8").err, HasSubstr("-S: error: pipeline.stages = ''"));
  EXPECT_THAT(sluice("plan -S 4 -M 8 --policy ''").err,
              HasSubstr("--policy: error: pipeline.policy = '': expected a command"));
  EXPECT_EQ(sluice("plan -S 4 -M 8 --schedule ''").code, 2);
}

}  // namespace
}  // namespace sluice::test
