// sluice check from the outside: verdicts, exit codes, the kinds of input.
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "command.hpp"
#include "log_builder.hpp"

namespace sluice::test {
namespace {

using testing::HasSubstr;

std::string good() { return LogBuilder(shape(4, 8)).text(); }

TEST(CheckCommand, AConfigurationAlone) {
  const CommandResult warned = sluice("check -S 8 -M 4");
  EXPECT_EQ(warned.code, 0) << warned.err;
  EXPECT_THAT(warned.out, HasSubstr("fill"));
  const CommandResult rejected = sluice("check -S 4 -M 8 --credits 1,2 --json");
  EXPECT_EQ(rejected.code, 2);
  EXPECT_EQ(rejected.json()["verdict"], "rejected");
  EXPECT_EQ(sluice("check").code, 2);
}

TEST(CheckCommand, ALogAgainstAConfiguration) {
  const Folder folder;
  const std::string log = folder.file("run.log", good());
  const std::string config = folder.file("run.toml", "[pipeline]\nstages = 4\nmicrobatches = 8\n");
  EXPECT_EQ(sluice("check " + config + " " + log).code, 0);
  const CommandResult shallow = sluice("check " + config + " -W 1 " + log + " --json");
  EXPECT_EQ(shallow.code, 1);
  const auto json = shallow.json();
  EXPECT_EQ(json["verdict"], "violation");
  EXPECT_EQ(json["records"], 128);
  EXPECT_EQ(json["findings"][0]["rule"], "over-credit");
  EXPECT_EQ(json["findings"][0]["likely"], "drain_depth");
  EXPECT_EQ(json["findings"][0]["log"], log);
  EXPECT_GT(json["findings"][0]["line"], 1);
}

TEST(CheckCommand, ThePictureHasAnArrowAtTheFirstWrongCell) {
  const Folder folder;
  const std::string log = folder.file("run.log", LogBuilder(depth(shape(2, 3), 0)).text());
  const CommandResult result = sluice("check -S 2 -M 3 " + log);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("planned\nstage 0 |"));
  EXPECT_THAT(result.out, HasSubstr("measured\nstage 0 |"));
  EXPECT_THAT(result.out, HasSubstr("^ seq "));
}

TEST(CheckCommand, ALogAloneSaysWhatWroteIt) {
  const Folder folder;
  const auto json = sluice("check --json " + folder.file("run.log", good())).json();
  EXPECT_EQ(json["verdict"], "pass");
  EXPECT_EQ(json["inferred"]["stages"], 4);
  EXPECT_EQ(json["inferred"]["microbatches"], 8);
  EXPECT_EQ(json["inferred"]["drain_depth"], 3);
  EXPECT_EQ(json["inferred"]["sure"], true);
}

TEST(CheckCommand, TheVerdictIsTheExitCode) {
  const Folder folder;
  const std::string text = good();
  EXPECT_EQ(sluice("check " + folder.file("cut", text.substr(0, 700))).code, 1);
  const CommandResult rejected = sluice("check " + folder.file("noise", text + "\x01\x02\x03\n"));
  EXPECT_EQ(rejected.code, 2);
  EXPECT_THAT(rejected.err, HasSubstr("noise:129:1: expected key=value"));
  EXPECT_EQ(sluice("check " + (folder / "absent").string()).code, 2);
  EXPECT_EQ(sluice("check " + (folder / "").string()).code, 2);
}

TEST(CheckCommand, ManyFilesAndGzip) {
  const Folder folder;
  std::string paths;
  for (int stage = 0; stage < 4; ++stage) {
    const std::string path = (folder / ("host-" + std::to_string(9 - stage))).string();
    const std::string text = LogBuilder(shape(4, 8))
                                 .lose_if([stage](const LogRecord& record) {
                                   return record.action.stage.value != stage;
                                 })
                                 .text();
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    paths += ' ' + path;
  }
  EXPECT_EQ(sluice("check -S 4 -M 8" + paths).code, 0);
  const auto json = sluice("check --json" + paths.substr(paths.find(' ', 1))).json();
  EXPECT_EQ(json["verdict"], "incomplete");
  EXPECT_EQ(json["findings"][0]["rule"], "lost-records");
}

TEST(CheckCommand, AStreamThatIsThePlansOwnLog) {
  const std::string command = SLUICE_COMMAND;
  const std::string pipe = command + " plan -S 4 -M 8 --schedule zb-h1 --format log | " + command +
                           " check -S 4 -M 8 --schedule zb-h1 - >/dev/null";
  EXPECT_EQ(std::system(pipe.c_str()), 0);
}

TEST(CheckCommand, LogsInWordsOfTheirOwn) {
  const Folder folder;
  std::string text = "started at 12:00\n";
  const LogBuilder log = LogBuilder(shape(4, 8)).drop("2F3 exit");
  for (const LogRecord& record : log.records()) {
    text += fmt::format(
        "12:00:{:02} INFO stage={} {} mb {} {}\n", record.seq % 60, record.action.stage.value,
        record.action.phase == Phase::forward ? "fwd" : "bwd", record.action.mb.value,
        record.event == LogRecord::Event::enter ? "start" : "done");
  }
  const std::string path = folder.file("train.log", text);
  const std::string patterns = "--pattern '... stage={stage} {phase} mb {mb} {event}'";
  const CommandResult result = sluice("check --json " + patterns + " " + path);
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_EQ(result.json()["findings"][0]["rule"], "never-exits");
  EXPECT_EQ(result.json()["records"], 127);
  const CommandResult wrong = sluice("check --pattern '{mb} fwd start' " + path);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("{stage}"));
}

TEST(CheckCommand, ATraceOfAProfiler) {
  const Folder folder;
  const Plan plan = derive_plan(shape(4, 8));
  const auto trace_of = [](const std::vector<TimedAction>& actions) {
    std::string events;
    for (const TimedAction& timed : actions) {
      // Each stage has a clock of its own.
      const auto start = static_cast<std::int64_t>(1e3 * timed.start.units()) +
                         timed.action.stage.value * std::int64_t{11'560'000};
      events +=
          fmt::format(R"(,{{"ph":"X","cat":"cpu_op","name":"{}{}","pid":1,"tid":{},"ts":{}.250,)"
                      R"("dur":{},"args":{{"name":"x","tid":[9]}}}})",
                      timed.action.phase == Phase::forward ? "fwd " : "bwd ", timed.action.mb.value,
                      timed.action.stage.value, start, 1e3 * (timed.end - timed.start).units());
    }
    return R"({"schemaVersion":1,"traceEvents":[{"ph":"M","name":"process_name"})" + events + "]}";
  };
  const std::string map = " --map 'name=fwd {mb}|bwd {mb}' stage=tid ";
  const CommandResult good =
      sluice("check -S 4 -M 8" + map + folder.file("good.json", trace_of(plan.timeline.actions)));
  EXPECT_EQ(good.code, 0) << good.out << good.err;
  EXPECT_THAT(good.out, HasSubstr("pass: 128 records"));
  const auto deep = derive_plan(depth(shape(4, 8), 6)).timeline.actions;
  const CommandResult bad =
      sluice("check -S 4 -M 8 --json" + map + folder.file("deep.json", trace_of(deep)));
  EXPECT_EQ(bad.json()["findings"][0]["likely"], "drain_depth");
  const std::string broken = folder.file("broken.json", "[{\"ph\":");
  EXPECT_EQ(sluice("check" + map + broken).code, 2);
  EXPECT_EQ(sluice("check --map name=x stage=tid " + broken).code, 2);
  EXPECT_EQ(sluice("check" + map + folder.file("none.json", "[]")).code, 2);
}

TEST(CheckCommand, FollowsALogUntilItIsRemoved) {
  const Folder folder;
  const std::string text = LogBuilder(shape(4, 8)).swap("2F3 enter", "2F3 exit").text();
  const std::string log = folder.file("run.log", text.substr(0, 600));
  const std::string rest = folder.file("rest", text.substr(600));
  const std::string out = (folder / "out").string();
  const std::string script = std::string("'") + SLUICE_COMMAND + "' check --follow " + log + " >" +
                             out + " & sleep 0.3; cat " + rest + " >>" + log +
                             "; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; grep -q "
                             "exit-without-enter " +
                             out + " && break; done; rm " + log + "; wait $!";
  EXPECT_EQ(WEXITSTATUS(std::system(script.c_str())), 1);
  const std::string said = read_text(out);
  EXPECT_THAT(said, HasSubstr("exit-without-enter"));
  EXPECT_THAT(said, HasSubstr("violation: 128 records"));
}

}  // namespace
}  // namespace sluice::test
