// sluice train, end to end: what it reports and writes, and what every failure says.

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_run.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class TrainCommand : public SmallRun {};

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// `seq=0001 mb=0` as {seq: 0001, mb: 0}.
std::map<std::string, std::string> fields_of(const std::string& line) {
  std::istringstream stream(line);
  std::map<std::string, std::string> fields;
  for (std::string field; stream >> field;) {
    const auto equals = field.find('=');
    fields[field.substr(0, equals)] = field.substr(equals + 1);
  }
  return fields;
}

TEST_F(TrainCommand, ReportsTheDocumentedKeys) {
  const auto run = train("--json");
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.err, "");
  const auto json = run.json();
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, testing::UnorderedElementsAre("steps", "loss", "test_accuracy", "weights_hash",
                                                  "samples_per_second", "bubble"));
  EXPECT_EQ(json["steps"], 5);
  EXPECT_GT(json["test_accuracy"], 0.2);
  EXPECT_GT(json["samples_per_second"], 0);
  EXPECT_DOUBLE_EQ(json["bubble"]["derived"], 3.0 / 11);
  EXPECT_GT(json["bubble"]["measured"], 0);
  EXPECT_LT(json["bubble"]["measured"], 1);
  EXPECT_THAT(json["weights_hash"].get<std::string>(), testing::MatchesRegex("[0-9a-f]{16}"));
}

TEST_F(TrainCommand, LearnsWhatThereIsToLearn) {
  const auto json = train("--json --set train.epochs=12 --set train.decay=true").json();
  EXPECT_EQ(json["steps"], 60);
  EXPECT_GT(json["test_accuracy"], 0.9);
}

TEST_F(TrainCommand, DrawsTheMeasuredTimelineUnderTheDerivedOne) {
  const auto run = train();
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.err, "");  // no progress line: this is no terminal
  EXPECT_THAT(run.out, Not(HasSubstr("\033")));
  for (const char* part :
       {"S=4 stages, M=8 microbatches, W=3", "derived:\nstage 0 |0 1 2 3 ", "measured: step ",
        "of the makespan derived, ", "held              4,3,2,1", "samples/s", "test accuracy     ",
        "weights hash      "}) {
    EXPECT_THAT(run.out, HasSubstr(part));
  }
  std::vector<std::size_t> widths;
  for (const std::string& line : lines_of(run.out)) {
    if (line.starts_with("stage ")) widths.push_back(line.size());
  }
  ASSERT_EQ(widths.size(), 8U);
  EXPECT_EQ(std::count(widths.begin(), widths.begin() + 4, widths[0]), 4);
  EXPECT_EQ(std::count(widths.begin() + 4, widths.end(), widths[4]), 4);
  EXPECT_LE(*std::max_element(widths.begin(), widths.end()), 100U);
  // However much of a step is waiting, most of what is shown can be read.
  const std::string measured = run.out.substr(run.out.find("measured: step "));
  EXPECT_THAT(measured, HasSubstr("\nstage 0 |0"));
  const auto unreadable = [&measured](char filled) {
    return std::count(measured.begin(), measured.end(), filled);
  };
  EXPECT_LT(unreadable('='), 40);
}

TEST_F(TrainCommand, WeightsDoNotDependOnHowTheWorkWasDone) {
  const std::string steps = "--json --set train.steps=3 ";
  const auto hash_of = [&](const std::string& sets) {
    const auto run = train(steps + sets);
    EXPECT_EQ(run.code, 0) << run.err;
    return run.json()["weights_hash"].get<std::string>();
  };
  const std::string expected = hash_of("");
  for (const char* sets :
       {"--set pipeline.stages=1", "--set pipeline.stages=2 --set pipeline.drain_depth=0",
        "--set pipeline.stages=3 --set pipeline.drain_depth=5",
        "--order adaptive --set train.threads=4", "-S 2 -W 4 --slots 1",
        "--set pipeline.schedule=gpipe --set train.threads=1", "--set pipeline.schedule=zb-h1",
        "--set pipeline.schedule=interleaved", "--set pipeline.credits=[7,5,3,1]"}) {
    EXPECT_EQ(hash_of(sets), expected) << sets;
  }
  EXPECT_NE(hash_of("--set train.seed=4"), expected);
}

TEST_F(TrainCommand, WritesEveryEventIntoTheLog) {
  ASSERT_EQ(train("--log " + path("run.log")).code, 0);
  const auto lines = lines_of(read_text(folder_ / "run.log"));
  constexpr std::size_t lines_a_step = 4 * 4 * 8;
  ASSERT_EQ(lines.size(), 5 * lines_a_step);
  EXPECT_THAT(lines[0], StartsWith("seq=0001 mb=0 stage=0 phase=F event=enter step=0 rank=0 t=0"));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(std::stoul(fields_of(lines[i]).at("seq")), i + 1) << lines[i];
    ASSERT_EQ(std::stoul(fields_of(lines[i]).at("step")), i / lines_a_step) << lines[i];
  }
}

TEST_F(TrainCommand, WritesOneLogAStageIntoAFolder) {
  ASSERT_EQ(train("--set train.steps=2 --log " + path("logs/")).code, 0);
  std::vector<std::string> all;
  for (int s = 0; s < 4; ++s) {
    const auto lines = lines_of(read_text(folder_ / fmt::format("logs/stage-{}.log", s)));
    EXPECT_EQ(lines.size(), 2 * 4 * 8);
    for (const std::string& line : lines) {
      EXPECT_EQ(fields_of(line).at("stage"), std::to_string(s));
      all.push_back(fields_of(line).at("seq"));
    }
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
  EXPECT_EQ(all.back(), "0256");
}

TEST_F(TrainCommand, AFailingStageIsNamedAndNothingWrittenIsLost) {
  const auto run = train("--json --set train.fail=1F3 --set train.fail_step=2 --log " +
                         path("run.log") + " --record " + path("run.slrec"));
  EXPECT_EQ(run.code, 1);
  const std::string text = "train.fail = 1F3 asked for this failure in step 2";
  EXPECT_THAT(run.err, StartsWith("sluice train: error: step 2: stage 1, mb 3, F failed: " + text));
  const auto json = run.json();
  EXPECT_EQ(json["steps"], 2);
  EXPECT_FALSE(json.contains("test_accuracy"));
  EXPECT_EQ(json["error"]["step"], 2);
  EXPECT_EQ(json["error"]["stage"], 1);
  EXPECT_EQ(json["error"]["mb"], 3);
  EXPECT_EQ(json["error"]["phase"], "F");
  EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr(text));
  // Two whole steps of 4*S*M records, and what had ended in the third.
  EXPECT_THAT(run.err,
              testing::ContainsRegex("last good: seq=02[5-9][0-9] exit of [0-3][FB][0-7]"));
  EXPECT_EQ(json["weights_hash"], train("--json --set train.steps=2").json()["weights_hash"]);

  // The failing step's events are in the log: it entered, and never left.
  const std::string log = read_text(folder_ / "run.log");
  EXPECT_THAT(log, HasSubstr(" mb=3 stage=1 phase=F event=enter step=2 "));
  EXPECT_THAT(log, Not(HasSubstr(" mb=3 stage=1 phase=F event=exit step=2 ")));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run.slrec"));
}

TEST_F(TrainCommand, ABackwardCanFailToo) {
  const auto run = train("--set train.fail=2B5");
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("step 0: stage 2, mb 5, B failed: "));
}

TEST_F(TrainCommand, ALossThatIsNoNumberEndsTheRun) {
  const auto run = train("--set train.learning_rate=1e30");
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("failed: its loss is "), HasSubstr("train.learning_rate = 1e+30"),
                    HasSubstr("train.check_finite = true")));
  const auto checked = train("--set train.learning_rate=1e30 --set train.check_finite=true");
  EXPECT_EQ(checked.code, 1);
  EXPECT_THAT(checked.err,
              testing::ContainsRegex("step [0-9]+: stage [0-9], mb [0-9], [FB] failed"));
}

TEST_F(TrainCommand, MoreThreadsThanTheSystemGrantsAreRefusedAndNothingHangs) {
  // A thread wants 8 MiB of stack; of address space there is enough for a few dozen.
  const auto run =
      shell(fmt::format("ulimit -v 1500000; timeout 60 {} train {} --set train.threads=1024",
                        SLUICE_COMMAND, config()));
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err,
              HasSubstr("threads: error: 1024 asked for, the system grants this process "));
}

TEST_F(TrainCommand, DataThatIsDamagedIsNamed) {
  const std::string images = read_text(folder_ / "train-images-idx3-ubyte.gz");
  folder_.file("train-images-idx3-ubyte.gz", images.substr(0, images.size() / 2));
  const auto cut = train();
  EXPECT_EQ(cut.code, 2);
  EXPECT_EQ(cut.out, "");
  EXPECT_THAT(cut.err, HasSubstr("train-images-idx3-ubyte.gz"));

  std::filesystem::remove(folder_ / "train-images-idx3-ubyte.gz");
  const auto missing = train();
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("train-images-idx3-ubyte.gz"),
                                 HasSubstr("install the package dataset-fashion-mnist")));
}

TEST_F(TrainCommand, EveryMistakeIsToldAndEndsWithTwo) {
  const std::vector<std::pair<std::string, std::string>> mistakes{
      {"--set train.epochs=x", "--set train.epochs=x: error: train.epochs = 'x': expected a whole"},
      {"--set train.epochs=0", "expected a whole number from 1 to"},
      {"--set train.epoch=1", "train.epoch: unknown key; did you mean 'epochs'?"},
      {"--set epochs=1", "expected section.key=value"},
      {"--set train.epochs", "expected section.key=value"},
      {"--set pipeline.microbatches=5 --set batch.global=64",
       "batch: global = 64: expected micro = "},
      {"--set model.widths=[784,24,10]", "2 layers for pipeline.stages = 4"},
      {"--set model.widths=[700,24,24,24,10]", "the first is 700: expected 784"},
      {"--set model.widths=[784,24,24,24,9]", "the last is 9: expected 10"},
      {"--set model.widths=[784]", "model.widths = [ 784 ]: expected two or more"},
      {"--set model.kind=transformer", "model.kind = 'transformer': expected perceptron"},
      {"--set batch.micro=80", "batch.global = 640: expected at most 320"},
      {"--set train.learning_rate=-1", "expected a finite number above 0"},
      {"--set train.momentum=1", "expected 0 to less than 1"},
      {"--set train.decay=yes", "train.decay = 'yes': expected true or false"},
      {"--set train.threads=0", "expected a whole number from 1 to 1024"},
      {"--set train.fail=9F0", "train.fail = 9F0: expected an action of the plan"},
      {"--set train.fail=1F0 --set train.fail_step=5", "train.fail_step = 5: expected less than 5"},
      {"--set train.fail_step=1", "train.fail_step = 1: expected train.fail too"},
      {"--policy ''", "--policy: error: pipeline.policy = ''"},
      {"--set train.steps=1 --set train.steps=2",
       "train.steps has been given by --set train.steps=1"},
      {"--order adaptive --set pipeline.order=fixed", "pipeline.order has been given by --order"},
      {"--record a.slrec --set record.file=b.slrec", "record.file has been given by --record"},
      {"--set train.fail=abc", "expected an action, like 2F5"},
      {"--set record.mode=all", "record.mode = 'all': expected off, ring, full or verify"},
      {"--record-mode off --record run.slrec",
       "record.mode = 'off', and a recording into run.slrec"},
      {"--set record.on_error=ignore", "record.on_error = 'ignore': expected stop or continue"},
      {"--log /missing/run.log", "/missing/run.log: error: cannot be written"},
      {"--record /missing/run.slrec", "/missing/run.slrec"},
      {"--recrod x", "unknown option '--recrod'; did you mean '--record'?"},
  };
  for (const auto& [arguments, told] : mistakes) {
    const auto run = train(arguments);
    EXPECT_EQ(run.code, 2) << arguments;
    EXPECT_THAT(run.err, HasSubstr(told)) << arguments;
  }
  EXPECT_EQ(sluice("train").code, 2);
  EXPECT_EQ(sluice("train /missing.toml").code, 2);

  const std::string only_shape =
      folder_.file("shape.toml", "[pipeline]\nstages=4\nmicrobatches=8\n");
  const auto no_model = sluice("train " + only_shape);
  EXPECT_EQ(no_model.code, 2);
  EXPECT_THAT(no_model.err, AllOf(HasSubstr("shape.toml: error: batch.micro is missing"),
                                  HasSubstr("shape.toml: error: model.widths is missing")));
}

TEST_F(TrainCommand, AScheduleFromAFileIsWhatRuns) {
  for (const std::string name : {"gpipe", "interleaved", "zb-h1", "zb-v", "dualpipe-v"}) {
    const auto usual = train(fmt::format("--json --schedule {0} --record {0}.slrec", name));
    ASSERT_EQ(usual.code, 0) << usual.err;
    ASSERT_EQ(
        sluice(fmt::format("plan -S 4 -M 8 --schedule {0} --format csv -o {0}.csv", name)).code, 0);
    const auto own = train(fmt::format("--json --schedule {0}.csv --record {0}-own.slrec", name));
    ASSERT_EQ(own.code, 0) << own.err;
    EXPECT_EQ(own.json()["weights_hash"], usual.json()["weights_hash"]) << name;
    const auto diff = sluice(fmt::format("diff {0}.slrec {0}-own.slrec --json", name));
    EXPECT_EQ(diff.json()["verdict"], "same") << diff.out;
  }
}

TEST_F(TrainCommand, AnOldRecordingIsOverwrittenOnlyWhenAsked) {
  folder_.file("run.slrec", "precious");
  const auto run = train("--record " + path("run.slrec"));
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("run.slrec: error: creating the file"));
  EXPECT_EQ(read_text(folder_ / "run.slrec"), "precious");
  EXPECT_EQ(train("--record " + path("old.slrec")).code, 0);
  EXPECT_EQ(train("--record " + path("old.slrec")).code, 2);
  EXPECT_EQ(train("--overwrite --record " + path("old.slrec")).code, 0);
  EXPECT_THAT(read_text(folder_ / "old.slrec"), StartsWith("sluicer"));
}

TEST_F(TrainCommand, NothingButAnOldRecordingIsOverwritten) {
  folder_.file("run.slrec", "precious");
  const std::string before = read_text(config());
  for (const std::string& file : {path("run.slrec"), config(), std::string("/dev/full")}) {
    const auto run = train("--overwrite --record " + file);
    EXPECT_EQ(run.code, 2) << file;
    EXPECT_THAT(run.err,
                testing::AnyOf(HasSubstr("expected an old recording, found something else"),
                               HasSubstr("would overwrite")));
  }
  EXPECT_EQ(read_text(folder_ / "run.slrec"), "precious");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));

  EXPECT_THAT(train("--log " + config()).err, HasSubstr("--log: error: "));
  EXPECT_EQ(read_text(config()), before);
  const auto same = train(fmt::format("--log {0} --record {0}", path("both")));
  EXPECT_EQ(same.code, 2);
  EXPECT_THAT(same.err, HasSubstr("is the recording too; expected another file"));
}

TEST_F(TrainCommand, HelpHasExamples) {
  const auto help = sluice("train --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("Example"), HasSubstr("train.fail")));
}

TEST(TrainExample, AModelLargerThanTheMemoryIsRefusedBeforeAnyOfItIsTaken) {
  const auto run = sluice("train --set model.widths=[784,20000000000,10] " SLUICE_SOURCE_DIR
                          "/examples/fashion-mnist.toml");
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, AllOf(HasSubstr("model.widths"), HasSubstr("expected")));
  const auto wide = sluice("train --set model.widths=[2000000000,2000000000,10] " SLUICE_SOURCE_DIR
                           "/examples/fashion-mnist.toml");
  EXPECT_EQ(wide.code, 2);
  EXPECT_THAT(wide.err, AllOf(HasSubstr("--set model.widths"), HasSubstr("GiB of memory here")));
}

TEST(TrainExample, IsAConfigurationThatPlansAndTrains) {
  const std::string example = SLUICE_SOURCE_DIR "/examples/fashion-mnist.toml";
  const auto plan = sluice("plan --json " + example);
  EXPECT_EQ(plan.code, 0);
  EXPECT_EQ(plan.json()["stages"], 4);
  EXPECT_TRUE(plan.json()["findings"].empty());
  EXPECT_EQ(sluice("train --json --set train.steps=3 " + example).json()["steps"], 3);
}

}  // namespace
}  // namespace sluice::test
