// The command on a terminal: colour and progress there, and nowhere else.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_run.hpp"
#include "terminal.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Terminal : public SmallRun {};

TEST_F(Terminal, PicturesHaveColourUnlessItIsNotWanted) {
  EXPECT_THAT(on_terminal("-u NO_COLOR", "plan -S 4 -M 8"), HasSubstr("\033[36m[0]\033[0m"));
  EXPECT_THAT(on_terminal("NO_COLOR=1", "plan -S 4 -M 8"), Not(HasSubstr("\033")));
  EXPECT_THAT(on_terminal("-u NO_COLOR", "plan -S 4 -M 8 --json"), Not(HasSubstr("\033")));
}

TEST_F(Terminal, TrainingShowsItsProgressOnOneLine) {
  const std::string shown = on_terminal("NO_COLOR=1", "train --set train.epochs=40 " + config());
  EXPECT_THAT(shown,
              AllOf(HasSubstr("\r\033[Kstep "), HasSubstr("/200  loss "),
                    HasSubstr("samples/s  bubble 27% derived, "), HasSubstr("held 4,3,2,1")));
  // The line is gone before the results come.
  EXPECT_THAT(shown, HasSubstr("\r\033[K\r\nmeasured: "));
}

/// A script that reads nothing must not go on as if there were nothing to read.
TEST_F(Terminal, AResultThatCannotBeWrittenIsAFailure) {
  ASSERT_EQ(train("--record " + path("run.slrec")).code, 0);
  folder_.file("run.log", "seq=1 mb=0 stage=0 phase=F event=enter\n");
  for (const std::string& arguments : std::vector<std::string>{
           "plan -S 4 -M 8", "plan -S 4 -M 8 --json", "check " + path("run.log"),
           "train --set train.steps=1 " + config(), "replay " + path("run.slrec"),
           "replay --schedule-only " + path("run.slrec"), "show " + path("run.slrec"),
           "diff " + path("run.slrec") + ' ' + path("run.slrec"),
           "pack " + path("run.slrec") + " -o " + path("run.slcase"), "explore -S 2 -M 2 --runs 3",
           "tune -S 2 -M 4", "--help", "plan --help"}) {
    for (const char* out : {">&-", ">/dev/full"}) {
      const auto result = shell(fmt::format("'{}' {} {}", SLUICE_COMMAND, arguments, out));
      EXPECT_EQ(result.code, 2) << arguments << out;
      EXPECT_THAT(result.err, HasSubstr("standard output: error: cannot be written: "))
          << arguments << out;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path("run.slcase")));
}

}  // namespace
}  // namespace sluice::test
