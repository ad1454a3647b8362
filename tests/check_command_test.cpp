// sluice check from the outside: verdicts, exit codes, the kinds of input.
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "command.hpp"
#include "log_builder.hpp"

namespace sluice::test {
namespace {

using testing::HasSubstr;

std::string good() { return LogBuilder(shape(4, 8)).text(); }

std::string gzipped(const std::string& text) {
  const Folder folder;
  const std::string path = (folder / "packed").string();
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return read_text(path);
}

std::string zstandard(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

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

TEST(CheckCommand, APictureForABrowser) {
  const Folder folder;
  const std::string log = folder.file("run.log", LogBuilder(depth(shape(2, 3), 0)).text());
  const CommandResult svg = sluice("check -S 2 -M 3 --format svg " + log);
  EXPECT_EQ(svg.code, 1) << svg.err;
  EXPECT_THAT(svg.out, testing::StartsWith("<svg"));
  for (const char* part : {">planned<", ">measured<", ">seq 7: plan-order<"}) {
    EXPECT_THAT(svg.out, HasSubstr(part));
  }
  // Into a file; the report is printed all the same.
  const std::string page = (folder / "page.html").string();
  const CommandResult html = sluice("check -S 2 -M 3 --json --format html -o " + page + " " + log);
  EXPECT_EQ(html.json()["verdict"], "violation");
  EXPECT_THAT(read_text(page), testing::StartsWith("<!doctype html>"));
  EXPECT_THAT(read_text(page), HasSubstr("plan-order: legal, but not the plan"));
  // A good log is drawn too; of no log there is no picture, and inputs are not written over.
  const CommandResult good_svg =
      sluice("check --format svg " + folder.file("good.log", LogBuilder(shape(2, 3)).text()));
  EXPECT_EQ(good_svg.code, 0);
  EXPECT_THAT(good_svg.out, HasSubstr(">measured<"));
  EXPECT_EQ(sluice("check -S 2 -M 3 --format svg").code, 2);
  EXPECT_EQ(sluice("check --format html -o " + log + " " + log).code, 2);
  EXPECT_EQ(sluice("check --format svg " + folder.file("empty.log", "")).code, 2);
  EXPECT_EQ(sluice("check -S 2 -M 3 -o " + (folder / "report").string() + " " + log).out, "");
  EXPECT_THAT(read_text(folder / "report"), HasSubstr("violation: 24 records"));
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

TEST(CheckCommand, ALogAloneIsWarnedOfWhatItsShapeCosts) {
  const Folder folder;
  const auto warned = [&folder](const PlanConfig& config) {
    const CommandResult result =
        sluice("check --json " + folder.file("run.log", LogBuilder(config).text()));
    EXPECT_EQ(result.code, 0) << result.out;
    const auto findings = result.json()["findings"];
    return findings.empty() ? std::string() : findings[0]["rule"].get<std::string>();
  };
  EXPECT_EQ(warned(shape(8, 4)), "fill");
  EXPECT_EQ(warned(depth(shape(4, 16), 1)), "drain-depth");
  EXPECT_EQ(warned(depth(shape(4, 16), 6)), "drain-depth");
  EXPECT_EQ(warned(shape(4, 16)), "");
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
    const std::string text = LogBuilder(shape(4, 8))
                                 .lose_if([stage](const LogRecord& record) {
                                   return record.action.stage.value != stage;
                                 })
                                 .text();
    paths += ' ' + folder.file("host-" + std::to_string(9 - stage), gzipped(text));
  }
  EXPECT_EQ(sluice("check -S 4 -M 8" + paths).code, 0);
  const auto json = sluice("check --json" + paths.substr(paths.find(' ', 1))).json();
  EXPECT_EQ(json["verdict"], "incomplete");
  EXPECT_EQ(json["findings"][0]["rule"], "lost-records");
}

TEST(CheckCommand, CompressedLogsWholeAppendedCutAndDamaged) {
  const Folder folder;
  const std::string text = LogBuilder(shape(4, 64)).text();
  for (const auto& pack : {gzipped, zstandard}) {
    const std::string packed = pack(text);
    EXPECT_EQ(sluice("check -S 4 -M 64 " + folder.file("whole", packed)).code, 0);
    const std::string pieces = pack(text.substr(0, 999)) + pack(text.substr(999));
    EXPECT_EQ(sluice("check -S 4 -M 64 " + folder.file("pieces", pieces)).code, 0);
    const std::string cut = packed.substr(0, packed.size() / 2);
    const CommandResult half = sluice("check -S 4 -M 64 --json " + folder.file("cut", cut));
    EXPECT_EQ(half.json()["verdict"], "truncated") << half.out << half.err;
    std::string broken = packed;
    for (std::size_t i = broken.size() / 2; i < broken.size(); ++i) broken[i] = '\x55';
    const CommandResult damaged = sluice("check " + folder.file("broken", broken));
    EXPECT_EQ(damaged.code, 2);
    EXPECT_THAT(damaged.err, HasSubstr("broken"));
    const std::string pipe = fmt::format("cat '{}' | '{}' check -S 4 -M 64 - >/dev/null",
                                         (folder / "whole").string(), SLUICE_COMMAND);
    EXPECT_EQ(std::system(pipe.c_str()), 0);
  }
}

TEST(CheckCommand, ASmallFileOfAHugeLogIsReadPieceByPiece) {
  const Folder folder;
  const std::string line(std::size_t{64} << 10, ' ');
  std::string text;
  for (int i = 0; i < 600; ++i) text += line + '\n';
  text += LogBuilder(shape(2, 2)).text();
  for (const std::string& packed : {gzipped(text), zstandard(text)}) {
    EXPECT_LT(packed.size(), text.size() / 100);
    EXPECT_EQ(sluice("check -S 2 -M 2 " + folder.file("packed", packed)).code, 0);
  }
}

TEST(CheckCommand, WhatIsNotGivenOfAShapeIsTakenFromTheLog) {
  const Folder folder;
  const std::string log = folder.file("run.log", LogBuilder(depth(shape(4, 8), 2)).text());
  // The numbers alone are held against the log's own; what is not said is no mistake.
  EXPECT_EQ(sluice("check -S 4 " + log).code, 0);
  EXPECT_EQ(sluice("check -M 8 " + log).code, 0);
  const auto finding = [](const CommandResult& result) { return result.json()["findings"][0]; };
  const CommandResult more = sluice("check --json -S 3 " + log);
  EXPECT_EQ(more.code, 1);
  EXPECT_EQ(finding(more)["rule"], "unknown-id");
  EXPECT_EQ(finding(more)["likely"], "stages");
  const CommandResult fewer = sluice("check --json -S 5 " + log);
  EXPECT_EQ(finding(fewer)["rule"], "stage-silent");
  EXPECT_EQ(finding(fewer)["likely"], "stages");
  const CommandResult long_step = sluice("check --json -M 7 " + log);
  EXPECT_EQ(finding(long_step)["rule"], "unknown-id");
  EXPECT_EQ(finding(long_step)["likely"], "microbatches");
  const CommandResult short_step = sluice("check --json -M 9 " + log);
  EXPECT_EQ(finding(short_step)["rule"], "truncated");
  EXPECT_EQ(finding(short_step)["likely"], "microbatches");
  // An order is held against a plan, whose shape the log completes; a stream is read twice for it.
  const CommandResult same = sluice("check -W 2 " + log);
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_THAT(same.out, HasSubstr("taken from the log: stages = 4, microbatches = 8"));
  const CommandResult shallow = sluice("check --json -W 1 -S 4 " + log);
  EXPECT_EQ(finding(shallow)["rule"], "over-credit");
  EXPECT_EQ(finding(shallow)["likely"], "drain_depth");
  const std::string pipe =
      fmt::format("cat '{}' | '{}' check --schedule 1f1b -M 8 - >/dev/null", log, SLUICE_COMMAND);
  EXPECT_EQ(WEXITSTATUS(std::system(pipe.c_str())), 1);
  // Without an order in what was given, the log's own is the one that a cap is held against.
  const std::string cap = folder.file("cap.toml", "[memory]\nper_microbatch = 1\ncap = 1\n");
  EXPECT_THAT(sluice("check " + cap + " " + log).err, HasSubstr("memory"));
  const std::string half = folder.file("half.log", good().substr(0, 900));
  EXPECT_THAT(sluice("check -W 2 " + half).out, HasSubstr("takes a whole step"));
  EXPECT_EQ(sluice("check -S 0 " + log).code, 2);
}

TEST(CheckCommand, ARecordingSaysItselfHowItsStepsEnded) {
  const std::string recordings = std::string(SLUICE_SOURCE_DIR) + "/tests/data/recordings/1.0-";
  const CommandResult healthy = sluice("check " + recordings + "healthy.slrec");
  EXPECT_EQ(healthy.code, 0) << healthy.out << healthy.err;
  const CommandResult failing = sluice("check " + recordings + "failing.slrec");
  EXPECT_EQ(failing.code, 1) << failing.out << failing.err;
  EXPECT_THAT(failing.out, HasSubstr("the step failed, as recorded: "));
  EXPECT_THAT(failing.out, testing::Not(HasSubstr("behind")));
  const CommandResult killed = sluice("check " + recordings + "killed.slrec");
  EXPECT_EQ(killed.code, 1) << killed.out << killed.err;
  EXPECT_THAT(killed.out, HasSubstr("the recording ends inside the step"));
}

TEST(CheckCommand, WhoAsksForJsonGetsAVerdictOnWhatCannotBeRead) {
  const Folder folder;
  const std::string map = "--map 'name=F{mb}' stage=tid ";
  for (const std::string& arguments :
       {(folder / "absent").string(), (folder / "").string(), folder.file("noise", "\x01\x02\n"),
        std::string(SLUICE_SOURCE_DIR) + "/tests/data/recordings/1.0-corrupt.slrec",
        folder.file("bad.toml", "[pipeline"), map + folder.file("trace.json", "{"),
        std::string("--pattern '{mb}' ") + (folder / "").string(),
        folder.file("broken.gz", "\x1F\x8B\x08 and what no gzip would have written")}) {
    const CommandResult result = sluice("check --json " + arguments);
    EXPECT_EQ(result.code, 2) << arguments << result.out;
    EXPECT_EQ(result.json()["verdict"], "rejected") << arguments;
    EXPECT_FALSE(result.json()["findings"][0]["message"].get<std::string>().empty());
  }
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
  const CommandResult none =
      sluice("check --pattern '... stage={stage} fwd mb={mb} start' " + path);
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("--pattern: error: no line of the logs looks like that"));
  EXPECT_THAT(none.err, HasSubstr("found 'started at 12:00'"));
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
  const std::string text = trace_of(plan.timeline.actions);
  for (std::size_t size = 0; size < text.size(); size += text.size() / 20) {
    EXPECT_EQ(sluice("check" + map + folder.file("cut.json", text.substr(0, size))).code, 2)
        << size;
  }
  const std::string broken = folder.file("broken.json", "[{\"ph\":");
  EXPECT_EQ(sluice("check" + map + broken).code, 2);
  EXPECT_EQ(sluice("check --map name=x stage=tid " + broken).code, 2);
  EXPECT_EQ(sluice("check" + map + folder.file("none.json", "[]")).code, 2);
}

/// Follows a log of which `rest` is written after the first `size` bytes have been read; removes it
/// when `said` has been said.
CommandResult follow(const std::string& text, std::size_t size, const std::string& options,
                     const std::string& said) {
  const Folder folder;
  const std::string log = folder.file("run.log", text.substr(0, size));
  const std::string rest = folder.file("rest", text.substr(size));
  const std::string out = (folder / "out").string();
  const std::string script = fmt::format(
      "'{}' check --follow {} {} >{} & sleep 0.3; cat {} >>{}; for i in $(seq 50); do sleep 0.2; "
      "grep -q '{}' {} && break; done; rm {}; wait $!",
      SLUICE_COMMAND, options, log, out, rest, log, said, out, log);
  CommandResult result;
  result.code = WEXITSTATUS(std::system(script.c_str()));
  result.out = read_text(out);
  return result;
}

TEST(CheckCommand, FollowsALogUntilItIsRemoved) {
  const std::string text = LogBuilder(shape(4, 8)).swap("2F3 enter", "2F3 exit").text();
  const CommandResult result = follow(text, 600, "", "exit-without-enter");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, testing::StartsWith("/"));  // the finding came first
  EXPECT_THAT(result.out, HasSubstr("exit-without-enter"));
  EXPECT_THAT(result.out, HasSubstr("violation: 128 records"));
}

TEST(CheckCommand, AGrowingLogHasAVerdictAfterEachStep) {
  const std::string text = LogBuilder(shape(2, 4))
                               .step(0)
                               .append(LogBuilder(shape(2, 4)).step(1))
                               .append(LogBuilder(shape(2, 4)).step(2))
                               .renumber()
                               .text();
  const CommandResult plain = follow(text, text.size() / 2, "-S 2 -M 4", "2 steps");
  EXPECT_EQ(plain.code, 0);
  EXPECT_THAT(plain.out, HasSubstr("so far pass: "));
  EXPECT_THAT(plain.out, HasSubstr("pass: 96 records, 3 steps"));
  const CommandResult json = follow(text, text.size() / 2, "--json", "\"steps\":2");
  std::istringstream lines(json.out);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
    last = line;
  }
  EXPECT_EQ(nlohmann::json::parse(last)["verdict"], "pass");
}

}  // namespace
}  // namespace sluice::test
