// sluice tune, end to end.

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string ten_layers =
    "-S 4 -M 16 --forward 1,1,1,1,1,1,1,1,1,3 --backward 2,2,2,2,2,2,2,2,2,6 --link 0.1";

TEST(TuneCommand, TheBestIsWhatItsCommandGives) {
  const auto tuned = sluice("tune --json " + ten_layers);
  EXPECT_EQ(tuned.code, 0) << tuned.err;
  const auto json = tuned.json();
  ASSERT_GE(json["best"].size(), 5);
  for (const auto& each : json["best"]) {
    EXPECT_GE(each["makespan"].get<double>(), json["lower_bound"].get<double>());
    const std::string command = each["command"];
    const auto plan = sluice(command.substr(command.find(' ') + 1) + " --json").json();
    EXPECT_NEAR(plan["makespan"].get<double>(), each["makespan"].get<double>(), 1e-9) << command;
  }
}

TEST(TuneCommand, PrintsAFewAndTheBound) {
  const auto tuned = sluice("tune " + ten_layers);
  EXPECT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_THAT(tuned.out, AllOf(HasSubstr("4 ranks, 10 layers, M=16"), HasSubstr("lower bound"),
                               HasSubstr("layers a stage"), HasSubstr("  sluice plan -S ")));
  EXPECT_EQ(tuned.err, "");  // no progress but on a terminal
}

TEST(TuneCommand, ABatchDecidesWhichMThereCanBe) {
  const Folder folder;
  const auto config = folder.file("run.toml",
                                  "[pipeline]\nstages = 2\nmicrobatches = 6\n"
                                  "[batch]\nglobal = 6\nmicro = 1\n");
  for (const auto& each : sluice("tune --json " + config).json()["best"]) {
    EXPECT_LE(each["microbatches"].get<int>(), 6);
  }
}

TEST(TuneCommand, MistakesAreTold) {
  const auto many = sluice("tune -S 12 -M 16 --forward 1,1,1");
  EXPECT_EQ(many.code, 2);
  EXPECT_THAT(many.err, HasSubstr("-S: error: tune: stages = 12: expected 1 to 3"));
  EXPECT_EQ(sluice("tune -S 2").code, 2);
  const auto policy =
      sluice("tune -S 2 -M 4 --policy 'python3 " SLUICE_SOURCE_DIR "/examples/backward_first.py'");
  EXPECT_EQ(policy.code, 2);
  EXPECT_THAT(policy.err, HasSubstr("tune searches the schedules that have a name"));
  for (const char* searched : {"-W 1", "--schedule 1f1b", "--order adaptive", "--chunks 2"}) {
    const auto refused = sluice(fmt::format("tune -S 2 -M 4 {}", searched));
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("tune searches it"));
  }
  const Folder folder;
  const auto full = folder.file("run.toml",
                                "[pipeline]\nstages = 2\nmicrobatches = 6\n"
                                "[memory]\nper_microbatch = 1000\ncap = 10\n");
  const auto nothing = sluice("tune " + full);
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("nothing fits under cap = 10"));
}

}  // namespace
}  // namespace sluice::test
