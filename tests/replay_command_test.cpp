// sluice replay and sluice show, end to end: the same run again, and every way in which it is not.

#include <cstddef>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/crc32c.hpp>
#include <sluice/replay/recording_format.hpp>

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

/// Whoever wrote another identity would have written its checksums, too.
std::string with_identity_resealed(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  std::vector<std::byte> bytes(first, first + text.size());
  namespace format = replay::format;
  const auto put = [&](std::size_t at, std::uint32_t crc) { format::put(bytes.data() + at, crc); };
  const std::size_t identity = format::get<std::uint32_t>(bytes.data() + 48);
  const std::size_t pages = (identity + format::page_size - 1) / format::page_size;
  const std::uint32_t crc =
      replay::crc32c(std::span(bytes).subspan(2 * format::page_size, pages * format::page_size));
  for (const std::size_t copy : {std::size_t{0}, format::page_size}) {
    put(copy + 52, crc);
    put(copy + 12, 0);
    put(copy + 12, replay::crc32c(std::span(bytes).subspan(copy, format::page_size)));
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

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
    EXPECT_EQ(json["steps"], 3);
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
  EXPECT_EQ(live["steps"], 3);
  EXPECT_EQ(live["live_steps"], 2);
  EXPECT_EQ(live["weights_hash"], recorded.json()["weights_hash"]);
  const auto resumed = replay("--json --until step=2,mb=3,stage=1,phase=F --then break").json();
  EXPECT_EQ(resumed["steps"], 5);
  EXPECT_EQ(resumed["weights_hash"], recorded.json()["weights_hash"]);
}

TEST_F(ReplayCommand, APointThatIsNotThereIsRefusedWithWhatThereIs) {
  ASSERT_EQ(record().code, 0);
  for (const auto& [until, says] : std::vector<std::pair<std::string, std::string>>{
           {"seq=0", "seq 0: expected 1 to 640"},
           {"seq=641", "seq 641: expected 1 to 640"},
           {"step=5,seq=1", "step 5: expected 0 to 4"},
           {"step=1,seq=1", "seq 1: expected 129 to 256"},
           {"step=9", "step 9: expected 0 to 4"},
           {"step=1,mb=8,stage=1,phase=F", "1F8 did not start in step 1"},
           {"step=1,mb=1,stage=1,phase=I", "there is: 1F1 1B1"},
           {"mb=1,stage=1,phase=F", "an action needs step, mb, stage and phase"},
           {"step=1,mb=1", "an action needs step, mb, stage and phase"},
           {"seq=5,mb=1", "seq names an action by itself"},
           {"step=1,mb=1,stage=1,phase=X", "'X' is no phase"},
           {"seq=x", "seq is no number"},
           {"seq=-1", "seq is no number"},
           {"seq=99999999999999999999", "seq is no number"},
           {"step=1,mb=99999999999,stage=1,phase=F", "no such stage or microbatch"},
           {"when=5", "unknown key 'when'"},
           {"seq", "'seq' has no value"},
           {",", "'' has no value"}}) {
    const auto result = replay("--until " + until);
    EXPECT_EQ(result.code, 2) << until;
    EXPECT_EQ(result.out, "") << until;
    EXPECT_THAT(result.err, AllOf(StartsWith("--until: error: "), HasSubstr(says))) << until;
  }
  EXPECT_THAT(replay("--rank 4").err, HasSubstr("--rank: error: 4: expected 0 to 3"));
  EXPECT_THAT(replay("--then live").err, HasSubstr("--until"));
}

TEST_F(ReplayCommand, TheOrderAloneReplaysAnywhere) {
  ASSERT_EQ(
      record("--set pipeline.order=adaptive --set train.fail=1F3 --set train.fail_step=2").code, 1);
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
  EXPECT_EQ(replay("--schedule-only --until seq=200 --json").json()["verdict"], "same");
}

/// The recording as another machine would have written it.
TEST_F(ReplayCommand, AnotherInstructionSetIsNamedFirstAndItsOrderStillReplays) {
  ASSERT_EQ(record().code, 0);
  std::string bytes = read_text(recording());
  const std::string isa = "\"isa\":\"";
  const auto at = bytes.find(isa);
  ASSERT_NE(at, std::string::npos);
  bytes[at + isa.size()] = 'X';
  // The checksum of the identity's page, as if it had been written so.
  folder_.file("run.slrec", with_identity_resealed(bytes));
  const auto refused = replay("--threads 4");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, AllOf(HasSubstr("refused: the same numbers cannot be expected here"),
                                 HasSubstr("  isa: recorded X"), HasSubstr("--schedule-only")));
  EXPECT_EQ(replay("--schedule-only").code, 0);
  EXPECT_EQ(replay("--allow isa --json").json()["verdict"], "same");
}

TEST_F(ReplayCommand, TheIdentityIsComparedBeforeAnythingRuns) {
  ASSERT_EQ(record().code, 0);
  std::string bytes = read_text(recording());
  for (const char* key : {"isa", "threads", "build"}) {
    const std::string before = fmt::format("\"{}\":\"", key);
    const auto at = bytes.find(before);
    ASSERT_NE(at, std::string::npos);
    bytes[at + before.size()] = 'X';
  }
  folder_.file("run.slrec", with_identity_resealed(bytes));
  const auto refused = replay();
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, AllOf(HasSubstr("  build: recorded X"), HasSubstr("  isa: recorded X"),
                                 HasSubstr("  threads: recorded X")));
  const auto json = replay("--json").json();
  EXPECT_EQ(json["verdict"], "refused");
  EXPECT_EQ(json["differences"].size(), 3);
  EXPECT_FALSE(json.contains("actions"));
}

TEST_F(ReplayCommand, OtherKernelThreadsAreNotComparable) {
  ASSERT_EQ(record().code, 0);
  std::string bytes = read_text(recording());
  const std::string threads = "\"threads\":\"1";
  const auto at = bytes.find(threads);
  ASSERT_NE(at, std::string::npos);
  bytes[at + threads.size() - 1] = '8';
  folder_.file("run.slrec", with_identity_resealed(bytes));
  const auto json = replay("--json");
  EXPECT_EQ(json.code, 2);
  EXPECT_EQ(json.json()["differences"]["threads"]["recorded"], "8");
  EXPECT_EQ(json.json()["differences"]["threads"]["found"], "1");
  EXPECT_THAT(replay("--schedule-only").out, HasSubstr("schedule matched, values not compared"));
}

TEST_F(ReplayCommand, UnreadableFilesAreRefusedInJsonToo) {
  folder_.file("run.slrec", "this is a text\n");
  for (const std::string& command : std::vector<std::string>{
           "replay --json " + recording(), "show --json " + recording(),
           "replay --json --schedule-only " + recording(), "replay --json /missing.slrec",
           "show --format json /missing.slrec", "diff --json /missing.slrec /missing.slrec",
           "pack --json -o " + path("x.slcase") + " /missing.slrec"}) {
    const auto result = sluice(command);
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_EQ(result.json()["verdict"], "refused") << command;
    EXPECT_NE(result.json()["message"], "") << command;
    EXPECT_THAT(result.err, HasSubstr("error: ")) << command;
  }
}

TEST_F(ReplayCommand, ADivergenceIsLookedIntoByItself) {
  ASSERT_EQ(record("--set pipeline.order=adaptive").code, 0);
  write_images(folder_, "train", 320, 1);
  const auto text = replay("--allow data");
  EXPECT_EQ(text.code, 1);
  EXPECT_THAT(text.out,
              AllOf(StartsWith("diverged: "), HasSubstr("  recorded: "), HasSubstr("  found: "),
                    HasSubstr("  last agreeing event: "), HasSubstr("  likely: "),
                    HasSubstr("  ready on rank "), HasSubstr("  held by stage: "),
                    HasSubstr("  waiting for stage: "), HasSubstr("  earlier and suspicious: "),
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
                                                             : "same: 3 steps"));
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
        "show x --format png"}) {
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

TEST_F(ReplayCommand, ShowDrawsTheRecordedOrderUnderThePlannedOne) {
  ASSERT_EQ(record("--set pipeline.order=adaptive").code, 0);
  EXPECT_THAT(show("--format svg").out,
              AllOf(HasSubstr("<svg"), HasSubstr("planned"), HasSubstr("step 4 as recorded")));
  EXPECT_THAT(show("--format html --step 1").out,
              AllOf(HasSubstr("<html"), HasSubstr("step 1 as recorded")));
  const auto trace = show("--format trace");
  EXPECT_EQ(trace.code, 0);
  EXPECT_TRUE(trace.json().is_object() || trace.json().is_array());
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
