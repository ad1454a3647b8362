// Shapes too large to be shown whole: what a plan says of them, and that it says it soon.

#include <algorithm>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.hpp"
#include "terminal.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(LargePlan, OfLongListsAndManyStagesTheEndsAreShown) {
  const auto result = sluice("plan -S 1000 -M 20");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\ncredits           1000,999,998,"));
  EXPECT_THAT(result.out, HasSubstr(",985, ... 968 more ..., 16,15,"));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("\nstage 31  |"), HasSubstr("\n... 936 more stages ...\nstage 968 |"),
                    HasSubstr("\nstage 999 |"), Not(HasSubstr("\nstage 32 "))));
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LT(line.size(), 300U) << line;
}

TEST(LargePlan, JsonHasAllOfIt) {
  EXPECT_EQ(sluice("plan -S 1000 -M 2 --json").json()["credits"].size(), 1000U);
}

TEST(LargePlan, ATerminalIsToldWhatTakesSoLong) {
  const std::string shown = on_terminal("NO_COLOR=1", "plan -S 64 -M 8192");
  EXPECT_THAT(shown, StartsWith("\r\033[Kderiving 1048576 actions"));
  EXPECT_THAT(shown, HasSubstr("\r\033[KS=64 stages"));  // gone before the result comes
  EXPECT_THAT(on_terminal("NO_COLOR=1", "plan -S 4 -M 8"), Not(HasSubstr("deriving")));
}

}  // namespace
}  // namespace sluice::test
