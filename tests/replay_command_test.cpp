// sluice replay, end to end: the same run again, stopped, handed over, or found different.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recorded_small_run.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ReplayCommand : public RecordedSmallRun {};

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

TEST_F(ReplayCommand, LimitedSlotsReplay) {
  for (const char* order : {"adaptive", "fixed"}) {
    ASSERT_EQ(record(fmt::format("--set record.overwrite=true --set pipeline.slots=1 "
                                 "--set pipeline.order={} --log {}",
                                 order, path("run.log")))
                  .code,
              0);
    EXPECT_EQ(replay("--json --threads 2").json()["verdict"], "same") << order;
    EXPECT_EQ(replay("--json --schedule-only").json()["verdict"], "same") << order;
  }
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

TEST_F(ReplayCommand, AStuckRunEndsStuckWithTheSameWaitGraph) {
  const auto stuck =
      record("--json --set pipeline.order=adaptive --policy " + policy_that("ready = []"));
  ASSERT_EQ(stuck.code, 1) << stuck.err;
  const auto error = stuck.json()["error"]["message"].get<std::string>();
  ASSERT_THAT(error, HasSubstr("stuck: every rank waits"));
  for (const char* threads : {"1", "4"}) {
    const auto again = replay(fmt::format("--json --threads {}", threads));
    EXPECT_EQ(again.code, 1) << again.err;
    EXPECT_EQ(again.json()["verdict"], "stuck-as-recorded");
    EXPECT_EQ(again.json()["failure"]["message"], error);
  }
  EXPECT_EQ(replay("--json --schedule-only").json()["verdict"], "stuck-as-recorded");
}

TEST_F(ReplayCommand, JsonSaysHowItFailedAndWithWhichWeights) {
  const auto recorded = record("--json --set train.fail=1F3 --set train.fail_step=2");
  ASSERT_EQ(recorded.code, 1);
  const auto json = replay("--json").json();
  EXPECT_EQ(json["verdict"], "failed-as-recorded");
  EXPECT_EQ(json["steps"], 3);
  EXPECT_GT(json["hashes"], 2 * 64);
  EXPECT_EQ(json["weights_hash"], recorded.json()["weights_hash"]);
  EXPECT_EQ(json["failure"]["step"], 2);
  EXPECT_EQ(json["failure"]["stage"], 1);
  EXPECT_EQ(json["failure"]["mb"], 3);
  EXPECT_EQ(json["failure"]["phase"], "F");
  EXPECT_THAT(json["failure"]["message"].get<std::string>(),
              StartsWith("stage 1, mb 3, F failed: "));
  EXPECT_THAT(replay().out, HasSubstr("--until step=2,mb=3,stage=1,phase=F"));
}

TEST_F(ReplayCommand, StopsBeforeAnActionOrALine) {
  ASSERT_EQ(record("--set train.fail=1F3 --set train.fail_step=2").code, 1);
  const std::string action = "--until step=2,mb=3,stage=1,phase=F";
  for (const char* threads : {"1", "3"}) {
    const auto stopped = replay(fmt::format("{} --json --threads {}", action, threads));
    EXPECT_EQ(stopped.code, 0) << stopped.err;
    const auto json = stopped.json();
    EXPECT_EQ(json["verdict"], "same");
    EXPECT_EQ(json["steps"], 2);  // whole
    EXPECT_FALSE(json.contains("failure"));
    EXPECT_EQ(json["reached"]["stage"], 1);
    EXPECT_EQ(json["reached"]["phase"], "F");
    // The same place by its line, and in the log that show gives.
    const auto seq = json["reached"]["seq"].get<std::int64_t>();
    EXPECT_EQ(replay(fmt::format("--json --until seq={}", seq)).json()["actions"], json["actions"]);
    EXPECT_EQ(replay(fmt::format("--json --until step=2,seq={}", seq)).json()["reached"],
              json["reached"]);
    EXPECT_THAT(show(fmt::format("--seq {}", seq)).out, HasSubstr("enter 1F3"));
  }
  EXPECT_THAT(replay(action + " --rank 1").out,
              AllOf(HasSubstr("stopped before step 2, stage 1, mb 3, F, seq "),
                    HasSubstr("rank 1 in step 2, its last lines:\n")));
  EXPECT_EQ(replay("--until step=1 --json").json()["reached"]["seq"], 4 * 4 * 8 + 1);
}

TEST_F(ReplayCommand, HandsOverLiveAndFinishesTheRun) {
  const auto recorded = record("--json --set pipeline.order=adaptive");
  ASSERT_EQ(recorded.code, 0);
  const auto live = replay("--json --until step=2,mb=3,stage=1,phase=F --then live").json();
  EXPECT_EQ(live["verdict"], "same");
  EXPECT_EQ(live["steps"], 2);
  EXPECT_EQ(live["reached"]["step"], 2);
  EXPECT_EQ(live["live_steps"], 2);
  EXPECT_EQ(live["weights_hash"], recorded.json()["weights_hash"]);
  const auto resumed = replay("--json --until step=2,mb=3,stage=1,phase=F --then break").json();
  EXPECT_EQ(resumed["steps"], 5);
  EXPECT_EQ(resumed["weights_hash"], recorded.json()["weights_hash"]);
}

TEST_F(ReplayCommand, AFailureOfTheLivePartIsNotCalledTheSame) {
  ASSERT_EQ(record("--set train.fail=1F3 --set train.fail_step=3").code, 1);
  const auto result = replay("--until step=1 --then live");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, AllOf(StartsWith("failed-live: 1 steps, "),
                                HasSubstr("and went on live: the rest of it, and 2 further steps, "
                                          "in the order of the configuration"),
                                HasSubstr("stage 1, mb 3, F failed: "),
                                Not(HasSubstr("to stop right before it"))));
  const auto json = replay("--until step=1 --then live --json").json();
  EXPECT_EQ(json["verdict"], "failed-live");
  EXPECT_EQ(json["failure"]["step"], 3);
}

TEST_F(ReplayCommand, ARankIsLookedAtWhileAllAreReplayed) {
  ASSERT_EQ(record("--set train.fail=2B3 --set train.fail_step=2").code, 1);
  const std::string action = "--until step=2,mb=3,stage=2,phase=B";
  const auto of_rank = replay(action + " --rank 2 --json");
  EXPECT_EQ(of_rank.code, 0) << of_rank.err;
  const auto json = of_rank.json();
  EXPECT_EQ(json["actions"], replay(action + " --json").json()["actions"]);
  EXPECT_EQ(json["rank"]["rank"], 2);
  EXPECT_EQ(json["rank"]["step"], 2);
  ASSERT_EQ(json["rank"]["events"].size(), 8);
  EXPECT_LT(json["rank"]["events"][7]["seq"], json["reached"]["seq"]);
  EXPECT_THAT(json["rank"]["events"][7]["event"].get<std::string>(), StartsWith("exit 2"));
  EXPECT_THAT(replay(action + " --rank 1").err,
              HasSubstr("--rank: error: 1: stage 2 of --until is on rank 2"));
  EXPECT_THAT(replay("--rank 2 --schedule-only").out,
              HasSubstr("rank 2 in step 2, its last lines:\n"));
}

TEST_F(ReplayCommand, TheOrderAloneReplaysAnywhere) {
  ASSERT_EQ(
      record("--set pipeline.order=adaptive --set train.fail=1F3 --set train.fail_step=2").code, 1);
  for (const std::string order_alone : {"", " --schedule-only"}) {
    EXPECT_THAT(replay("--until step=0" + order_alone).out, HasSubstr("nothing has been compared"));
  }
  std::filesystem::remove(folder_ / "run.toml");
  for (const char* file : {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"}) {
    std::filesystem::remove(folder_ / file);
  }
  EXPECT_EQ(replay("--json").code, 2);  // without its data
  const auto json = replay("--schedule-only --json");
  EXPECT_EQ(json.code, 1);
  EXPECT_EQ(json.json()["verdict"], "failed-as-recorded");
  EXPECT_EQ(json.json()["steps"], 3);
  EXPECT_THAT(replay("--schedule-only").out,
              AllOf(HasSubstr("schedule matched, values not compared"),
                    HasSubstr("stage 1, mb 3, F failed: train.fail = 1F3 asked")));
  const auto part = replay("--schedule-only --until seq=200 --json").json();
  EXPECT_EQ(part["verdict"], "same");
  EXPECT_EQ(part["steps"], 1);
}

/// The recording as another machine would have written it.
TEST_F(ReplayCommand, ADivergenceIsLookedIntoByItself) {
  ASSERT_EQ(record("--set pipeline.order=adaptive").code, 0);
  write_images(folder_, "train", 320, 1);
  const auto text = replay("--allow data");
  EXPECT_EQ(text.code, 1);
  EXPECT_THAT(text.out, AllOf(StartsWith("diverged: 0 steps, "), HasSubstr("  recorded: "),
                              HasSubstr("  found: "), HasSubstr("  last agreeing event: "),
                              HasSubstr("  likely: "), HasSubstr("  ready on rank "),
                              HasSubstr("  held by stage: "), HasSubstr("  waiting for stage: "),
                              HasSubstr("  earlier and suspicious: "),
                              HasSubstr("the same difference each time, the program changed"),
                              HasSubstr("  identity: differs, as allowed\n    data: recorded ")));
  EXPECT_THAT(
      text.out,
      AllOf(HasSubstr("  to look closer: sluice replay " + recording() + " --until step=0,seq="),
            HasSubstr(" --allow data\n"), HasSubstr("sluice show " + recording() + " --seq ")));
  // The command it names works.
  const auto from = text.out.find("--until ");
  const auto command = text.out.substr(from, text.out.find('\n', from) - from);
  EXPECT_EQ(replay(command).code, 0) << command;
  const auto divergence = replay("--allow data --json").json()["divergence"];
  EXPECT_EQ(divergence["nature"], "the program changed");
  EXPECT_TRUE(divergence["decisions"].is_array());
  for (const char* key : {"ready", "held", "credits", "waiting"}) {
    EXPECT_TRUE(divergence.contains(key)) << key;
  }
}

TEST_F(ReplayCommand, ADebuggerStopsAtThePointAndGoesOn) {
  if (std::system("command -v gdb >/dev/null") != 0) GTEST_SKIP() << "gdb is not installed";
  ASSERT_EQ(record("--set train.fail=1F3 --set train.fail_step=2").code, 1);
  for (const char* then : {"break", "stop"}) {
    const std::string out = path("gdb.out");
    static_cast<void>(std::system(
        fmt::format("gdb -nx -batch -ex 'set breakpoint pending off' -ex 'break sluice_stop_here' "
                    "-ex run -ex 'backtrace 3' -ex 'x/s $rdi' -ex continue --args '{}' replay {} "
                    "--until step=2,mb=3,stage=1,phase=F --then {} >{} 2>&1 </dev/null",
                    SLUICE_COMMAND, recording(), then, out)
            .c_str()));
    const std::string said = read_text(out);
    if (said.find("ptrace") != std::string::npos) GTEST_SKIP() << "no debugging here: " << said;
    EXPECT_THAT(said, HasSubstr("sluice_stop_here (")) << then;
    EXPECT_THAT(said, HasSubstr("\"step 2, stage 1, mb 3, F, seq "));
    // Then the replay goes on: into the failure, or to its end right there.
    EXPECT_THAT(said, HasSubstr(std::string(then) == "break" ? "failed-as-recorded: 3 steps"
                                                             : "same: 2 steps"));
  }
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

}  // namespace
}  // namespace sluice::test
