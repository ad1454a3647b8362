// The files that commands write: what may be in their way, who else may write them, and what a full disk
// leaves of them.

#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_run.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class OutputFiles : public SmallRun {};

TEST_F(OutputFiles, AnOldLogMakesWayForANewOne) {
  ASSERT_EQ(train("--log run.log").code, 0);
  const auto before = read_text("run.log");
  ASSERT_EQ(train("--log run.log --set train.steps=2").code, 0);
  const auto now = read_text("run.log");
  EXPECT_THAT(now, StartsWith("seq=0001 "));
  EXPECT_LT(now.size(), before.size());
}

TEST_F(OutputFiles, NothingButALogMakesWayForOne) {
  ASSERT_EQ(train("--record run.slrec").code, 0);
  write_text("notes.txt", "mine\n");
  for (const std::string name : {"run.slrec", "notes.txt"}) {
    const auto before = read_text(name);
    const auto run = train("--log " + name);
    EXPECT_EQ(run.code, 2);
    EXPECT_THAT(run.err, HasSubstr(name + ": error: is there already, and is no log: expected"));
    EXPECT_EQ(read_text(name), before);
  }
}

TEST_F(OutputFiles, TwoRunsDoNotMixTheirLinesInOneLog) {
  write_text("run.log", "seq=0001 mb=0 stage=0 phase=F event=enter\n");
  const int other = ::open("run.log", O_RDWR | O_CLOEXEC);  // as the other run has it
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  const auto run = train("--log run.log");
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("run.log: error: another process is writing it: expected a file "
                                 "of its own"));
  EXPECT_THAT(read_text("run.log"), EndsWith("event=enter\n"));
  ::close(other);
  EXPECT_EQ(train("--log run.log").code, 0);
}

TEST_F(OutputFiles, AFullDiskEndsTheRunBehindTheStepAndItsLogWithTheOneBefore) {
  const auto full = train("--json --log /dev/full");
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err,
              HasSubstr("step 1: the log ends here: /dev/full: cannot be written: No space"));
  EXPECT_EQ(full.json()["steps"], 1);  // it has been applied

  // A limit on the size of files in the middle of a step; a step of the log takes some 8 KB.
  const auto limited = shell(fmt::format(
      "trap '' XFSZ; ulimit -f 20; exec '{}' train {} --set record.mode=off --log run.log",
      SLUICE_COMMAND, config()));
  EXPECT_EQ(limited.code, 1) << limited.err;
  EXPECT_THAT(limited.err,
              HasSubstr("run.log: cannot be written: File too large; free disk space"));
  const auto check = sluice("check run.log --json").json();
  EXPECT_EQ(check["verdict"], "pass");
  EXPECT_GE(check["steps"], 1);
}

TEST_F(OutputFiles, AFullStandardOutputCostsARunItsReportAlone) {
  ASSERT_EQ(train("--record run.slrec --log run.log --set train.steps=1").code, 0);
  const auto unheard = [&](const std::string& arguments) {
    return shell(
        fmt::format("exec '{}' train {} --record run.slrec --overwrite --log run.log {} >/dev/full",
                    SLUICE_COMMAND, config(), arguments));
  };
  for (const char* json : {"", "--json"}) {
    const auto run = unheard(json);
    EXPECT_EQ(run.code, 2);
    EXPECT_THAT(run.err, HasSubstr("standard output: error: cannot be written: No space left"));
    EXPECT_EQ(sluice("replay run.slrec --json").json()["steps"], 5);
    EXPECT_EQ(sluice("check run.log --json").json()["steps"], 5);
  }
  const auto failed = unheard("--set train.fail=1F3 --set train.fail_step=2");
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.err, HasSubstr("error: step 2: stage 1, mb 3, F failed"));
}

TEST_F(OutputFiles, AResultReplacesATextAndNoRecording) {
  ASSERT_EQ(train("--record run.slrec").code, 0);
  const auto before = read_text("run.slrec");
  const auto plan = sluice("plan -S 2 -M 4 -o run.slrec");
  EXPECT_EQ(plan.code, 2);
  EXPECT_THAT(plan.err, HasSubstr("run.slrec: error: is there already, and is no text"));
  EXPECT_EQ(read_text("run.slrec"), before);
  write_text("plan.svg", "<svg old and much longer than what stands there afterwards...\n");
  ASSERT_EQ(sluice("plan -S 2 -M 4 --format csv -o plan.svg").code, 0);
  EXPECT_EQ(read_text("plan.svg"), sluice("plan -S 2 -M 4 --format csv").out);
}

TEST_F(OutputFiles, AReportDoesNotReplaceTheSettingsItIsAbout) {
  write_text("train.sh",
             "--pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 8\n");
  const auto check = sluice("check --megatron train.sh -o train.sh");
  EXPECT_EQ(check.code, 2);
  EXPECT_THAT(check.err, AllOf(StartsWith("-o: error: "), HasSubstr("would overwrite train.sh")));
  EXPECT_THAT(read_text("train.sh"), StartsWith("--pipeline"));
}

}  // namespace
}  // namespace sluice::test
