// sluice explore, end to end, and sluice replay of its tokens.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/token.hpp>

#include "command.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Every small schedule whole; the same count each time.
TEST(ExploreCommand, EveryStateOfEverySmallSchedule) {
  for (const std::string name : {"drain", "1f1b", "gpipe", "eager-1f1b", "interleaved",
                                 "looped-bfs", "zb-h1", "zb-h2", "zb-v", "dualpipe-v"}) {
    const std::string command =
        "explore -S 4 -M 4 --slots 2 --strategy exhaustive --json --schedule " + name;
    const auto result = sluice(command);
    EXPECT_EQ(result.code, 0) << name << result.err;
    const auto json = result.json();
    EXPECT_TRUE(json["complete"].get<bool>()) << name;
    EXPECT_GT(json["states"].get<int>(), 100) << name;
    EXPECT_EQ(json["failures"].size(), 0) << name;
    EXPECT_EQ(sluice(command).json()["states"], json["states"]) << name;
  }
}

TEST(ExploreCommand, SaysWhatItHasDoneAndWhatItMayClaim) {
  const auto all = sluice("explore -S 4 -M 4 --slots 2 --strategy exhaustive");
  EXPECT_THAT(all.out, AllOf(HasSubstr("-S 4 -M 4 --slots 2"), HasSubstr("states, complete"),
                             HasSubstr("nothing is wrong")));
  const auto pct = sluice("explore -S 3 -M 4 --order adaptive --strategy pct --depth 3 --runs 500");
  EXPECT_EQ(pct.code, 0) << pct.out << pct.err;
  EXPECT_THAT(pct.out, AllOf(HasSubstr("500 runs"), HasSubstr("a bug of depth 3 with probability"),
                             HasSubstr("99 % needs"), HasSubstr("happened"),
                             HasSubstr("runs made twice, and alike")));
  EXPECT_EQ(pct.err, "");  // no progress but on a terminal
  const auto bounded = sluice("explore -S 2 -M 1 --strategy bounded --depth 1");
  EXPECT_THAT(bounded.out, HasSubstr("all orders with at most 1 deviations"));
}

TEST(ExploreCommand, FaultsStrikeOrAreNamedAsNotApplicable) {
  const auto result = sluice("explore -S 3 -M 4 --faults all --runs 3000");
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("an update dropped"), HasSubstr("an action failed"),
                                Not(HasSubstr("not applicable"))));
  const auto alone = sluice("explore -S 1 -M 4 --faults all --runs 500");
  EXPECT_EQ(alone.code, 0) << alone.out;
  EXPECT_THAT(alone.out, HasSubstr("not applicable    delay, duplicate, drop: with one rank"));
}

TEST(ExploreCommand, ASwarmDrawsEverythingAndSaysWhat) {
  const auto result = sluice("explore --strategy swarm --runs 2000 --faults all");
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("2000 scenarios"));
  for (const char* drawn : {"drain (",
                            "1f1b (",
                            "gpipe (",
                            "eager-1f1b (",
                            "interleaved (",
                            "looped-bfs (",
                            "zb-h1 (",
                            "zb-h2 (",
                            "zb-v (",
                            "dualpipe-v (",
                            "throw (",
                            "slow (",
                            "nan (",
                            "alloc (",
                            "worker (",
                            "cancel (",
                            "deadline (",
                            "delay (",
                            "duplicate (",
                            "drop (",
                            "with an adaptive order",
                            "with credits",
                            "with slots",
                            "with link times",
                            "whose stages suspend"}) {
    EXPECT_THAT(result.out, HasSubstr(drawn));
  }
  EXPECT_THAT(result.out, Not(HasSubstr("never happened")));
  const auto json = sluice("explore --strategy swarm --runs 20 --json").json();
  ASSERT_EQ(json["drawn"].size(), 20);
  for (const auto& drawn : json["drawn"]) {
    EXPECT_THAT(drawn.get<std::string>(),
                AllOf(HasSubstr("order, S="), HasSubstr("V="), HasSubstr("M="), HasSubstr("W="),
                      HasSubstr("credits "), HasSubstr("slots "), HasSubstr("forward "),
                      HasSubstr("overhead "), HasSubstr("no fault")));
  }
}

// An edge with few slots blocks in the runtime as it does in the plan's states; without any, a rank stays
// with its output until it is taken.
TEST(ExploreCommand, SlotsHoldInTheRuntimeAndInTheStates) {
  for (const std::string shape :
       {"-S 4 -M 6 --slots 1", "-S 4 -M 6 --slots 2 --order adaptive", "-S 3 -M 4 -W 0 --slots 0",
        "-S 3 -M 4 --schedule gpipe --slots 0"}) {
    const auto runtime = sluice("explore --runs 500 " + shape);
    EXPECT_EQ(runtime.code, 0) << runtime.out << runtime.err;
    EXPECT_THAT(runtime.out, Not(HasSubstr("never block")));
    const auto states = sluice("explore --strategy exhaustive " + shape);
    EXPECT_EQ(states.code, 0) << states.out << states.err;
    EXPECT_THAT(states.out, HasSubstr("complete: every state there is"));
  }
}

TEST(ExploreCommand, AShapeThatIsTooLargeIsRefusedWithTheArithmetic) {
  for (const std::string strategy : {"random", "exhaustive"}) {
    const auto result = sluice("explore -S 1000 -M 1000 --strategy " + strategy);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr("-S 1000 -M 1000 is too large to explore"),
                                  HasSubstr("2000000 actions"), HasSubstr("take fewer stages")));
  }
}

TEST(ExploreCommand, TheSameSeedGivesTheSame) {
  const std::string command = "explore -S 3 -M 4 --order adaptive --runs 300 --json --seed ";
  EXPECT_EQ(sluice(command + "7").out, sluice(command + "7").out);
  EXPECT_NE(sluice(command + "7").out, sluice(command + "8").out);
}

TEST(ExploreCommand, ASeedIsTakenAsItStandsOrNotAtAll) {
  for (const char* seed : {"99999999999999999999999", "18446744073709551616", "-1", "''", "1.5"}) {
    const auto result = sluice(fmt::format("explore -S 2 -M 2 --runs 1 --seed {}", seed));
    EXPECT_EQ(result.code, 2) << seed;
    EXPECT_THAT(result.err, HasSubstr("expected a whole number from 0 to 18446744073709551615"));
  }
  EXPECT_EQ(sluice("explore -S 2 -M 2 --runs 1 --seed 18446744073709551615").code, 0);
}

TEST(ExploreCommand, MistakesAreTold) {
  EXPECT_THAT(sluice("explore -S 3").err, HasSubstr("microbatches"));
  const auto unknown = sluice("explore -S 3 -M 4 --faults thow");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'throw'?"));
  const auto both = sluice("explore -S 3 -M 4 --strategy exhaustive --faults nan");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("faults strike the runtime"));
  EXPECT_EQ(sluice("explore -S 3 -M 4 --strategy swarm").code, 2);
  EXPECT_EQ(sluice("explore -S 3 -M 4 --strategy best").code, 2);
  EXPECT_EQ(sluice("explore -S 3 -M 4 --strategy pct --depth 0").code, 2);
  EXPECT_EQ(sluice("explore -S 3 -M 4 --strategy exhaustive --record r").code, 2);
  EXPECT_EQ(sluice("explore -S 2 -M 4 --credits 4,1 --slots 1").code, 2);  // no such plan
}

TEST(ReplayCommand, ATokenIsRunOrRefusedWithAReason) {
  replay::Token token;
  token.scenario.config.stages = 3;
  token.scenario.config.microbatches = 4;
  token.scenario.config.order = OrderMode::adaptive;
  token.deviations = {{5, 1}};
  const auto again = sluice("replay " + to_string(token));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, AllOf(HasSubstr("same: -S 3 -M 4 --order adaptive"),
                               HasSubstr("nothing is wrong in this order")));
  // The same with a schedule of one's own, which is not in it.
  for (const std::string option :
       {"--threads 2", "--rank 1", "--until seq=3", "--schedule-only", "--allow build"}) {
    const auto pointless = sluice("replay " + option + " " + to_string(token));
    EXPECT_EQ(pointless.code, 2) << option;
    EXPECT_THAT(pointless.err, HasSubstr("leave it out")) << option;
  }
  token.own = true;
  const auto own = sluice("replay " + to_string(token));
  EXPECT_EQ(own.code, 2);
  EXPECT_THAT(own.err, HasSubstr("sluice explore SHAPE --token TOKEN"));
  const auto brought =
      sluice("explore -S 3 -M 4 --order adaptive --json --token " + to_string(token));
  EXPECT_EQ(brought.json()["verdict"], "same") << brought.err;
  for (const std::string option : {"--strategy pct", "--runs 5", "--seed 2", "--depth 1",
                                   "--faults nan", "--suspend", "--record again.slrec"}) {
    const auto pointless = sluice(
        fmt::format("explore -S 3 -M 4 --order adaptive {} --token {}", option, to_string(token)));
    EXPECT_EQ(pointless.code, 2) << option;
    EXPECT_THAT(pointless.err, HasSubstr(option.substr(0, option.find(' ')) + " excludes --token"));
  }
  const auto other = sluice("explore -S 3 -M 5 --token " + to_string(token));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("the configuration of -S 3 -M 5"));
  const auto refused = sluice("replay slc1:AAAA");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("its sum is wrong"));
}

TEST(ExploreCommand, ATokenIsHeldToWhatExploringIs) {
  const auto large = sluice("replay slc1:QASAgAQIAAACwMc");  // -S 4 -M 65536
  EXPECT_EQ(large.code, 2);
  EXPECT_THAT(large.err, HasSubstr("too large to explore"));
  const auto pointless = sluice("replay slc1:AAICAAECAABssw");  // throws where nothing runs
  EXPECT_EQ(pointless.code, 2);
  EXPECT_THAT(pointless.err, HasSubstr("throw at 0I0: expected a fault of an action"));
}

}  // namespace
}  // namespace sluice::test
