// sluice replay and sluice show, end to end: the same run again, and every way in which it is not.

#include <cstddef>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_run.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class ReplayCommand : public SmallRun {
 protected:
  std::string recording() const { return path("run.slrec"); }
  CommandResult record(const std::string& arguments = "") const {
    return train("--record " + recording() + ' ' + arguments);
  }
  CommandResult replay(const std::string& arguments = "") const {
    return sluice(fmt::format("replay {} {}", recording(), arguments));
  }
  CommandResult show(const std::string& arguments = "") const {
    return sluice(fmt::format("show {} {}", recording(), arguments));
  }
};

TEST_F(ReplayCommand, IsTheSameOnAnyNumberOfThreads) {
  const auto recorded = record("--json");
  ASSERT_EQ(recorded.code, 0) << recorded.err;
  EXPECT_EQ(recorded.json()["recording"], recording());
  for (int threads : {1, 2, 4}) {
    const auto json = replay(fmt::format("--json --threads {}", threads));
    EXPECT_EQ(json.code, 0);
    EXPECT_EQ(json.json()["verdict"], "same");
    EXPECT_EQ(json.json()["actions"], 5 * 64);
    EXPECT_EQ(json.json()["events"], 5 * (128 + 4));
  }
  const auto text = replay();
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, StartsWith("same: 5 steps, 320 actions, 660 events, "));
  EXPECT_THAT(text.out,
              HasSubstr("weights hash      " + recorded.json()["weights_hash"].get<std::string>()));
}

TEST_F(ReplayCommand, NeedsNothingButTheRecordingAndTheData) {
  ASSERT_EQ(record("--set pipeline.order=adaptive --set pipeline.drain_depth=6").code, 0);
  std::filesystem::remove(folder_ / "run.toml");
  const auto again = replay("--json");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()["verdict"], "same");
}

TEST_F(ReplayCommand, EverySplitAndChunkedScheduleReplays) {
  for (const char* schedule : {"zb-h1", "interleaved", "looped-bfs", "gpipe"}) {
    std::filesystem::remove(recording());
    ASSERT_EQ(record(fmt::format("--set pipeline.schedule={} --set train.steps=2", schedule)).code,
              0);
    EXPECT_EQ(replay("--json").json()["verdict"], "same") << schedule;
  }
  // A schedule of one's own travels in the recording.
  const std::string file = path("own.csv");
  ASSERT_EQ(sluice("plan -S 4 -M 8 --schedule zb-h2 --format csv -o " + file).code, 0);
  std::filesystem::remove(recording());
  ASSERT_EQ(record(fmt::format("--set pipeline.schedule={} --set train.steps=2", file)).code, 0);
  std::filesystem::remove(file);
  EXPECT_EQ(replay("--json").json()["verdict"], "same");
}

TEST_F(ReplayCommand, AFailureFailsAgainWithItsText) {
  ASSERT_EQ(record("--set train.fail=1F3 --set train.fail_step=2").code, 1);
  for (const char* threads : {"1", "4"}) {
    const auto again = replay(fmt::format("--threads {}", threads));
    EXPECT_EQ(again.code, 1);
    EXPECT_THAT(again.out, StartsWith("failed-as-recorded: 3 steps, "));
    EXPECT_THAT(again.out, HasSubstr("stage 1, mb 3, F failed: train.fail = 1F3 asked for this "
                                     "failure in step 2"));
  }
  EXPECT_EQ(replay("--json").json()["verdict"], "failed-as-recorded");
  EXPECT_THAT(show().out, AllOf(HasSubstr("steps 0..1        applied\n"),
                                HasSubstr("step 2            stage 1, mb 3, F failed: ")));
}

TEST_F(ReplayCommand, AKilledRunReplaysUpToItsEnd) {
  const std::string log = path("run.log");
  const int status = std::system(
      fmt::format(
          "'{}' train {} --set train.epochs=1000000 --record {} --log {} >/dev/null & run=$!; "
          "while [ ! -s {} ]; do sleep 0.02; done; kill -9 $run; wait $run 2>/dev/null; true",
          SLUICE_COMMAND, config(), recording(), log, log)
          .c_str());
  ASSERT_EQ(status, 0);
  const auto again = replay("--json");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()["verdict"], "recording-ends");
  EXPECT_GE(again.json()["actions"], 64);
  EXPECT_THAT(show().out, HasSubstr("its run did not end in good order"));
}

TEST_F(ReplayCommand, OtherDataIsRefusedAndDivergesWhenAllowed) {
  ASSERT_EQ(record().code, 0);
  write_images(folder_, "train", 320, 1);
  const auto refused = replay();
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("refused"), HasSubstr("  data: recorded "), HasSubstr("--allow")));
  const auto json = replay("--json");
  EXPECT_EQ(json.code, 2);
  EXPECT_EQ(json.json()["verdict"], "refused");
  EXPECT_TRUE(json.json()["differences"].contains("data"));

  const auto diverged = replay("--json --allow data");
  EXPECT_EQ(diverged.code, 1);
  EXPECT_EQ(diverged.json()["verdict"], "diverged");
  const auto divergence = diverged.json()["divergence"];
  EXPECT_EQ(divergence["class"], "tensor");
  EXPECT_EQ(divergence["step"], 0);
  for (const char* key : {"seq", "rank", "local", "stage", "mb", "phase", "recorded", "found",
                          "last_agreeing", "message"}) {
    EXPECT_TRUE(divergence.contains(key)) << key;
  }
  EXPECT_THAT(replay("--allow data").out, HasSubstr("recorded: "));
}

TEST_F(ReplayCommand, AFileThatIsNotAsItWasWrittenIsOneClearMessage) {
  ASSERT_EQ(record().code, 0);
  const std::string whole = read_text(recording());
  const auto broken = [&](const std::string& bytes) {
    folder_.file("run.slrec", bytes);
    const auto result = replay();
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith(recording() + ": error: "));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  // Any byte: header, its copy, identity, records.
  for (std::size_t at = 1; at < whole.size(); at += whole.size() / 23) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    broken(changed);
  }
  // Anywhere, on a page's border too.
  for (std::size_t size = 1; size < whole.size(); size += whole.size() / 11) {
    broken(whole.substr(0, size));
  }
  EXPECT_THAT(broken(whole.substr(0, whole.size() - 4096)), HasSubstr("cut short"));
  EXPECT_THAT(broken(whole.substr(0, whole.size() - 4096)), HasSubstr("--allow damage"));
  EXPECT_THAT(broken(""), HasSubstr("found 0 bytes"));
  broken("this is a text, not a recording\n");
  broken(std::string(100'000, '\0'));

  folder_.file("run.slrec", whole.substr(0, whole.size() - 4096));
  const auto left = replay("--json --allow damage");
  EXPECT_EQ(left.code, 0);
  EXPECT_EQ(left.json()["verdict"], "recording-ends");
  EXPECT_THAT(show().out, HasSubstr("damage: cut short"));
}

TEST_F(ReplayCommand, MissingFilesAndWrongOptionsEndWithTwo) {
  for (const char* arguments :
       {"replay", "replay /missing.slrec", "replay /", "show /missing.slrec", "show",
        "replay x --threads 0", "replay x --allow nothing", "replay x --untli",
        "show x --format svg"}) {
    const auto result = sluice(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_THAT(result.err, HasSubstr("error: ")) << arguments;
  }
}

TEST_F(ReplayCommand, HelpHasExamples) {
  for (const char* command : {"replay --help", "show --help"}) {
    const auto help = sluice(command);
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, HasSubstr("Example"));
  }
}

TEST_F(ReplayCommand, WithoutHashesOnlyTheOrderIsClaimed) {
  ASSERT_EQ(record("--set record.mode=full").code, 0);
  const auto again = replay();
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, HasSubstr("of the order of actions alone"));
}

TEST_F(ReplayCommand, ShowGivesTheLogOfTheRun) {
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

TEST_F(ReplayCommand, ShowLooksAtStepsStagesAndMicrobatches) {
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
  EXPECT_THAT(show("--stage 2").out, AllOf(HasSubstr("enter 2F0"), HasSubstr("enter 2B7"),
                                           testing::Not(HasSubstr("enter 1F0"))));

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
}

}  // namespace
}  // namespace sluice::test
