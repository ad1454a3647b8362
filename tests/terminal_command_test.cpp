// The command on a terminal: colour and progress there, and nowhere else.

#include <string>

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

}  // namespace
}  // namespace sluice::test
