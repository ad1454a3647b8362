// sluice plan, end to end: numbers and formats.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> keys_of(const nlohmann::json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(PlanCommand, DerivesTheNumbersOfAShape) {
  const auto plan = sluice("plan -S 4 -M 8 --json");
  EXPECT_EQ(plan.code, 0);
  EXPECT_EQ(plan.err, "");
  const auto json = plan.json();
  EXPECT_TRUE(json["makespan"].is_number_integer());
  EXPECT_EQ(json["makespan"], 22);
  EXPECT_EQ(json["drain_depth"], 3);
  EXPECT_EQ(json["schedule"], "drain");
  EXPECT_EQ(json["entered_at_first_backward"], 4);
  EXPECT_THAT(json["peak_held"], ElementsAre(4, 3, 2, 1));
  EXPECT_DOUBLE_EQ(json["bubble"]["of_makespan"], 6.0 / 22);
  EXPECT_DOUBLE_EQ(json["bubble"]["of_ideal"], 6.0 / 16);
  EXPECT_TRUE(json["findings"].empty());
  ASSERT_EQ(json["order"].size(), 4);
  EXPECT_THAT(json["order"][3], testing::SizeIs(16));
  EXPECT_EQ(json["order"][3][1], "3B0");
  EXPECT_EQ(json["start"].size(), 64);
  EXPECT_EQ(json["start"]["3B0"], 4);
  EXPECT_EQ(json["slots"]["safe"], 1);
  EXPECT_EQ(json["slots"]["never_blocking"], 4);
  EXPECT_EQ(json["recommended"]["drain_depth"], 3);
}

TEST(PlanCommand, KnowsEverySchedule) {
  for (const char* schedule : {"drain", "1f1b", "gpipe", "eager-1f1b", "interleaved", "looped-bfs",
                               "zb-h1", "zb-h2", "zb-v", "dualpipe-v"}) {
    const auto plan = sluice(fmt::format("plan -S 8 -M 16 --schedule {} --json", schedule));
    EXPECT_EQ(plan.code, 0) << plan.err;
    EXPECT_EQ(plan.json()["schedule"], schedule);
  }
  const auto chunked = sluice("plan -S 8 -M 16 --schedule interleaved --chunks 4");
  EXPECT_THAT(chunked.out, HasSubstr("ranks             2, 4 stages each"));
}

TEST(PlanCommand, AnotherScheduleThanTheFilesTakesNothingOfTheFilesDepth) {
  const Folder folder;
  const auto file = folder.file("run.toml",
                                "[pipeline]\nstages = 4\nmicrobatches = 8\nschedule = \"1f1b\"\n"
                                "drain_depth = 3\n");
  for (const char* option : {"--schedule gpipe", "--set pipeline.schedule=gpipe"}) {
    const auto plan = sluice(fmt::format("plan {} {} --json", file, option));
    EXPECT_EQ(plan.code, 0) << plan.err;
    EXPECT_EQ(plan.json()["drain_depth"], 7);
  }
  EXPECT_EQ(sluice(fmt::format("plan {} --schedule drain --json", file)).json()["drain_depth"], 3);
  EXPECT_EQ(sluice(fmt::format("plan {} --schedule gpipe -W 3", file)).code, 2);
}

TEST(PlanCommand, WritesAScheduleAndReadsItBack) {
  const Folder folder;
  const std::string file = (folder / "zb.csv").string();
  ASSERT_EQ(sluice("plan -S 4 -M 8 --schedule zb-h1 --format csv -o " + file).code, 0);
  const auto own = sluice("plan --json --schedule " + file).json();
  const auto named = sluice("plan --json -S 4 -M 8 --schedule zb-h1").json();
  EXPECT_EQ(own["order"], named["order"]);
  EXPECT_EQ(own["makespan"], named["makespan"]);

  folder.file("bad.csv", "0F0,0B0\n1F0,1B0x\n");
  const auto bad = sluice("plan --schedule " + (folder / "bad.csv").string());
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("--schedule: error: schedule: " + (folder / "bad.csv").string() +
                                 ", row 2, column 2: expected"));
  EXPECT_THAT(bad.err, HasSubstr("^"));

  // In a file, the name is taken from where the file is.
  const auto config = folder.file("run.toml", "[pipeline]\nschedule = \"zb.csv\"\n");
  EXPECT_EQ(sluice("plan --json " + config).json()["microbatches"], 8);
}

TEST(PlanCommand, KeepsUnderAMemoryCap) {
  const Folder folder;
  const auto config =
      folder.file("run.toml",
                  "[pipeline]\nstages = 4\nmicrobatches = 8\n"
                  "[memory]\nper_microbatch = 10\nfixed = [5, 5, 5, 6]\ncap = 30\n");
  const auto plan = sluice("plan " + config);
  EXPECT_EQ(plan.code, 2);
  EXPECT_THAT(plan.err, HasSubstr("run.toml:7:7: error: memory: cap = 30: stage 0 needs 45 bytes"));
  const auto shallow = sluice("plan -W 1 " + config);
  EXPECT_EQ(shallow.code, 0);
  EXPECT_THAT(shallow.out, HasSubstr("peak bytes        25,25,25,16"));
}

TEST(PlanCommand, TakesCostsAndDrainDepth) {
  auto json = sluice("plan -S 4 -M 8 --forward 1 --backward 2 --json").json();
  EXPECT_EQ(json["makespan"], 33);
  EXPECT_THAT(json["credits"], ElementsAre(4, 3, 2, 1));

  const auto shallow = sluice("plan -S 4 -M 8 --forward 1 --backward 2 -W 2 --json");
  EXPECT_EQ(shallow.code, 0);
  json = shallow.json();
  EXPECT_EQ(json["makespan"], 39);
  EXPECT_THAT(json["credits"], ElementsAre(3, 3, 2, 1));
  ASSERT_EQ(json["findings"].size(), 1);
  EXPECT_EQ(json["findings"][0]["rule"], "drain-depth");
  EXPECT_EQ(json["findings"][0]["severity"], "warning");

  json = sluice("plan -S 4 -M 32 --forward 1,1,1,1 --backward 2 --link 1 --credits 7,5,3,1 --json")
             .json();
  EXPECT_EQ(json["makespan"], 111);
  EXPECT_EQ(sluice("plan -S 2 -M 2 --overhead 0.25 --json").json()["makespan"], 7.5);
}

TEST(PlanCommand, SaysWhereTheTimeGoes) {
  const auto json = sluice("plan -S 4 -M 8 --backward 2 --forward 1,1,1,2 --json").json();
  EXPECT_EQ(json["critical_path"]["bottleneck"], 3);
  EXPECT_EQ(json["critical_path"]["of_stage"][3], 32);
  EXPECT_NEAR(json["critical_path"]["one_percent_less"].get<double>(), 0.32, 1e-9);
  EXPECT_EQ(json["critical_path"]["actions"][0], "0F0");
  EXPECT_EQ(json["idle"].size(), 4);
  EXPECT_THAT(json["most_waiting"]["outputs"], testing::SizeIs(3));
  EXPECT_EQ(json["recommended"]["prices"][3]["makespan"], json["makespan"]);
  const auto zero_bubble = sluice("plan -S 4 -M 8 --backward 2 --schedule zb-h2 --json").json();
  EXPECT_EQ(zero_bubble["makespan"], 27);
  EXPECT_EQ(zero_bubble["back_to_back"], 24);
  const auto text = sluice("plan -S 4 -M 8 --backward 2").out;
  EXPECT_THAT(text, HasSubstr("\nidle inside       9,6,3,0 between"));
  EXPECT_THAT(text, HasSubstr("3            33          4  recommended\n"));
}

TEST(PlanCommand, DerivesMFromTheBatchAndReplicasFromTheDevices) {
  const Folder folder;
  const auto plan = sluice("plan --json " + folder.file("run.toml",
                                                        "[pipeline]\nstages = 4\n"
                                                        "[batch]\nglobal = 256\nmicro = 4\n"
                                                        "[devices]\ncount = 8\ngroups = [4, 4]\n"));
  EXPECT_EQ(plan.json()["microbatches"], 32) << plan.err;
  const auto ragged =
      sluice("plan --json " + folder.file("ragged.toml",
                                          "[pipeline]\nstages = 3\n"
                                          "[batch]\nglobal = 8\nmicro = 3\nragged = true\n"));
  EXPECT_EQ(ragged.json()["microbatches"], 3) << ragged.err;
}

TEST(PlanCommand, AShortLastMicrobatchTakesLessAndWeighsLess) {
  const Folder folder;
  const std::string file = folder.file("ragged.toml",
                                       "[pipeline]\nstages = 3\n"
                                       "[batch]\nglobal = 8\nmicro = 3\nragged = true\n"
                                       "[costs]\nforward = 3\nbackward = 6\n");
  const auto plan = sluice("plan --json " + file);
  EXPECT_EQ(plan.json()["makespan"], 40) << plan.err;  // 45 if it were filled up
  EXPECT_THAT(plan.json()["weights"], ElementsAre(0.375, 0.375, 0.25));
  EXPECT_THAT(sluice("plan " + file).out, HasSubstr("sizes             2 x 3, 1 x 2; each "
                                                    "microbatch weighs its share of 8"));
}

// What was measured beside what was planned.

TEST(PlanCommand, MeasuredTimesSayWhichKeyMendsThePlan) {
  const auto plan = sluice(
      "plan -S 4 -M 8 --backward 2 --measured forward=1,1,1,1.4 --measured backward=2,2,2,2.8 "
      "--measured step=44");
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("measured          1 of the plan is 1.1"),
                              HasSubstr("balance           78.6%: 4 stages are worth 3.14"),
                              HasSubstr("warning: balance: stage 3 takes 4.2"),
                              HasSubstr("warning: costs: forward = 1: on stage 3"),
                              HasSubstr("set forward = [1, 1, 1, 1.4]")));
  const auto json =
      sluice("plan -S 4 -M 8 --backward 2 --json --measured forward=1 --measured backward=2")
          .json();
  EXPECT_EQ(json["measured"]["balance"], 1);
  EXPECT_EQ(json["measured"]["explained"], 33);
  EXPECT_TRUE(json["measured"]["findings"].empty());
}

TEST(PlanCommand, StepsThatWereMeasuredAreFitted) {
  const auto plan = sluice(
      "plan -S 12 -M 128 --forward 0.333333 --backward 0.666667 "
      "--measured steps=32:35.77,64:59.65,96:83.11,128:107.12");
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("-7.4%"), HasSubstr("-3.1%"), HasSubstr("-0.8%"),
                              HasSubstr("fixed             3.87 of every step")));
}

/// A log of 1F1B over two stages; stage 1 is half as fast, times are nanoseconds.
std::string log_with_clocks() {
  std::string text;
  int seq = 0;
  const auto add = [&](int stage, char phase, int mb, int from, int to) {
    for (const auto& [event, t] : {std::pair("enter", from), std::pair("exit", to)}) {
      text += fmt::format("seq={} mb={} stage={} phase={} event={} step=0 t={}\n", ++seq, mb, stage,
                          phase, event, t * 1'000'000);
    }
  };
  add(0, 'F', 0, 0, 1);
  add(0, 'F', 1, 1, 2);
  add(1, 'F', 0, 1, 3);
  add(1, 'B', 0, 3, 7);
  add(1, 'F', 1, 7, 9);
  add(0, 'B', 0, 7, 9);
  add(1, 'B', 1, 9, 13);
  add(0, 'B', 1, 13, 15);
  return text;
}

TEST(PlanCommand, ALogWithClocksIsMeasured) {
  const Folder folder;
  const std::string log = folder.file("run.log", log_with_clocks());
  const auto json = sluice("plan -S 2 -M 2 --backward 2 --json --measured " + log).json();
  const auto& measured = json["measured"];
  EXPECT_EQ(measured["slowest"], 1);
  EXPECT_EQ(measured["step"], 15);
  EXPECT_EQ(measured["explained"], 15);
  EXPECT_EQ(measured["stages"][1]["measured_backward"], 4);
  EXPECT_EQ(measured["findings"][0]["rule"], "balance");
  EXPECT_THAT(sluice("plan -S 2 -M 2 --backward 2 --measured " + log).out,
              HasSubstr("measured          1 of the plan is 1.5 ms"));
}

TEST(PlanCommand, WhatCannotBeMeasuredIsTold) {
  const Folder folder;
  const std::string log = folder.file("run.log", log_with_clocks());
  const std::string bare = folder.file("bare.log", "mb=0 stage=0 phase=F event=enter\n");
  for (const auto& [given, told] :
       {std::pair<std::string, std::string>{"forward=1,x",
                                            "forward=1,x: expected times of 0 or more"},
        {"speed=3", "speed=3: expected forward=LIST"},
        {"steps=3", "expected microbatches and the time"},
        {"forward=1,2,3", "one for each of the 2"},
        {"step=3", "found neither"},
        {"missing.log", "missing.log: error: cannot be read"},
        {bare, "expected records with t=NANOSECONDS"},
        {log + " --measured step=3", "either a log or times typed in"}}) {
    const auto plan = sluice("plan -S 2 -M 2 --measured " + given);
    EXPECT_EQ(plan.code, 2) << given;
    EXPECT_THAT(plan.err, HasSubstr(told));
  }
  EXPECT_THAT(sluice("plan -S 3 -M 2 --measured " + log).err, HasSubstr("one for each of the 3"));
}

TEST(PlanCommand, WarnsThatAShortBatchNeverFillsThePipe) {
  const auto plan = sluice("plan -M 2 -S 4 --json");
  EXPECT_EQ(plan.code, 0);
  ASSERT_EQ(plan.json()["findings"].size(), 1);
  const auto finding = plan.json()["findings"][0];
  EXPECT_THAT(keys_of(finding),
              testing::IsSubsetOf({"rule", "severity", "key", "seq", "stage", "mb", "phase",
                                   "expected", "found", "likely", "message"}));
  EXPECT_EQ(finding["rule"], "fill");
  EXPECT_EQ(finding["severity"], "warning");
  EXPECT_EQ(finding["key"], "microbatches");
  EXPECT_EQ(finding["found"], "2");
  EXPECT_THAT(sluice("plan -M 2 -S 4").out, HasSubstr("warning: fill: microbatches = 2"));

  EXPECT_EQ(sluice("plan -S 8 -M 1 --forward 1 --backward 2 --json").json()["makespan"], 24);
}

TEST(PlanCommand, JsonKeysAreTheDocumentedOnes) {
  EXPECT_THAT(
      keys_of(sluice("plan -S 3 -M 6 --json").json()),
      testing::IsSupersetOf({"stages", "microbatches", "drain_depth", "schedule", "credits",
                             "order", "start", "makespan", "bubble", "peak_held",
                             "entered_at_first_backward", "slots", "recommended", "findings"}));
}

TEST(PlanCommand, PrintsHeaderAndPicture) {
  const auto plan = sluice("plan -S 4 -M 8");
  EXPECT_EQ(plan.code, 0);
  EXPECT_THAT(plan.out, StartsWith("S=4 stages, M=8 microbatches, W=3 drain depth; schedule "
                                   "drain, fixed order\n"));
  for (const char* part :
       {"\ncredits           4,3,2,1\n", "\ngate              1 held", "\nmakespan          22\n",
        "27.3% of the makespan, 37.5% of the ideal\n", "\npeak held         4,3,2,1\n",
        "\nentered           4 when", "\nstage 3 |.........0  [0]1  [1]"}) {
    EXPECT_THAT(plan.out, HasSubstr(part));
  }
  // Not a terminal: no colour.
  EXPECT_THAT(plan.out, testing::Not(HasSubstr("\033")));
}

TEST(PlanCommand, WritesTheExpectedLogIntoAFile) {
  const Folder folder;
  const auto file = folder / "expected.log";
  const auto plan = sluice("plan -S 2 -M 3 --format log -o " + file.string());
  EXPECT_EQ(plan.code, 0);
  EXPECT_EQ(plan.out, "");
  const std::string log = read_text(file);
  EXPECT_THAT(log, StartsWith("seq=0001 mb=0 stage=0 phase=F event=enter\n"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 4 * 2 * 3);
}

TEST(PlanCommand, DrawsForABrowserAndATraceViewer) {
  const auto svg = sluice("plan -S 4 -M 8 --format svg");
  EXPECT_EQ(svg.code, 0);
  EXPECT_THAT(svg.out, AllOf(StartsWith("<svg "), HasSubstr("S=4 stages, M=8 microbatches"),
                             HasSubstr("<title>3B7: ")));
  const Folder folder;
  const auto page = folder / "plan.html";
  EXPECT_EQ(sluice("plan -S 4 -M 8 --format html -o " + page.string()).code, 0);
  EXPECT_THAT(read_text(page),
              AllOf(StartsWith("<!doctype html>"), HasSubstr("makespan          22"),
                    HasSubstr("<title>3B7: "), HasSubstr("</html>")));
  const auto trace = sluice("plan -S 4 -M 8 --format trace").json();
  // A name for the plan and for each of four ranks, and 64 actions.
  EXPECT_EQ(trace["traceEvents"].size(), 69U);
}

TEST(PlanCommand, OverwritesNothingThatItIsMadeFrom) {
  const Folder folder;
  const std::string text = "[pipeline]\nstages = 2\nmicrobatches = 2\nschedule = \"own.csv\"\n";
  const auto config = folder.file("plan.toml", text);
  const auto schedule = folder.file("own.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  for (const std::string& file : {config, schedule, (folder / "./plan.toml").string()}) {
    const auto plan = sluice(fmt::format("plan {} --format csv -o {}", config, file));
    EXPECT_EQ(plan.code, 2);
    EXPECT_THAT(plan.err, HasSubstr("would overwrite"));
  }
  EXPECT_EQ(read_text(config), text);
  EXPECT_EQ(sluice(fmt::format("plan {} --format csv -o {}.2", config, schedule)).code, 0);
}

TEST(PlanCommand, ReadsAFileAndLetsOptionsOverrideIt) {
  const Folder folder;
  const auto file = folder.file("plan.toml",
                                "[pipeline]\nstages = 4\nmicrobatches = 8\n"
                                "[costs]\nforward = 1\nbackward = [2, 2, 2, 2]\n"
                                "[batch]\nglobal = 256\nmicro = 32\n");
  EXPECT_EQ(sluice("plan --json " + file).json()["makespan"], 33);
  EXPECT_EQ(sluice("plan --json -W 2 " + file).json()["makespan"], 39);
}

TEST(PlanCommand, AnyKeyCanBeSetOnTheCommandLine) {
  const Folder folder;
  const auto file = folder.file("plan.toml", "[pipeline]\nstages = 4\nmicrobatches = 8\n");
  const auto set = sluice("plan --json --set costs.backward=2 --set batch.micro=4 " + file);
  ASSERT_EQ(set.code, 0) << set.err;
  EXPECT_EQ(set.json()["makespan"], 33);
}

TEST(Command, HelpHasAnExampleAndUnknownSubcommandsAreNamed) {
  const auto help = sluice("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("Exit codes"));
  const auto plan = sluice("plan --help");
  EXPECT_EQ(plan.code, 0);
  EXPECT_THAT(plan.out, HasSubstr("Example"));

  const auto unknown = sluice("pln");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.out, "");
  EXPECT_THAT(unknown.err, HasSubstr("unknown subcommand 'pln'; did you mean 'plan'?"));

  const auto nothing = sluice("");
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("Usage"));
}

}  // namespace
}  // namespace sluice::test
