// What sluice explore does when an order fails: exit code, the smallest order, its token, its recording, and
// that both fail again. The command under test has a mistake linked into it (planted_policy.cpp).
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.hpp"

namespace sluice::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Sets the mistake for the commands that the test runs.
class Planted {
 public:
  explicit Planted(const char* mistake) { ::setenv("SLUICE_PLANTED", mistake, 1); }
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
  ~Planted() { ::unsetenv("SLUICE_PLANTED"); }
};

std::string token_in(const std::string& text) {
  const auto at = text.find("sluice replay slc1:");
  if (at == std::string::npos) return "";
  const auto begin = at + std::string("sluice replay ").size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

// A race: in most orders nothing is wrong.
TEST(ExploreFailure, ARaceIsFoundMadeSmallWrittenDownAndRepeated) {
  const Planted hasty("hasty");
  const Folder folder;
  const std::string file = (folder / "race.slrec").string();
  const auto found =
      sluice("explore -S 4 -M 8 --order adaptive --suspend --runs 20000 --record " + file);
  ASSERT_EQ(found.code, 1) << found.out << found.err;
  EXPECT_EQ(found.err, "");
  EXPECT_THAT(found.out, AllOf(Not(HasSubstr(": 0 deviations")), HasSubstr("what decides"),
                               HasSubstr("planted: a backward came too soon"),
                               HasSubstr("fails 10 times of 10"),
                               HasSubstr("as it was met     -S 4 -M 8 --order adaptive"),
                               HasSubstr("in full           drain, adaptive order, S=4 on 4 ranks"),
                               HasSubstr("other orders"), HasSubstr("recorded\n  sluice replay")));

  const std::string token = token_in(found.out);
  ASSERT_NE(token, "") << found.out;
  EXPECT_LE(token.size(), 64);
  const auto again = sluice("replay " + token);
  EXPECT_EQ(again.code, 1) << again.err;
  EXPECT_THAT(again.out, AllOf(HasSubstr("failed-as-recorded: "),
                               HasSubstr("planted: a backward came too soon")));

  const auto recorded = sluice("replay " + file);
  EXPECT_EQ(recorded.code, 1) << recorded.out << recorded.err;
  EXPECT_THAT(recorded.out, AllOf(HasSubstr("failed-as-recorded: an explored run"),
                                  HasSubstr(token), HasSubstr("events as recorded"),
                                  HasSubstr("planted: a backward came too soon")));
  const auto json = sluice("replay --json " + file).json();
  EXPECT_EQ(json["verdict"], "failed-as-recorded");
  EXPECT_EQ(json["explored"], token);
  EXPECT_GT(json["events"].get<int>(), 8);
  EXPECT_THAT(sluice("show " + file).out, HasSubstr("1F"));
  const auto packed = sluice("pack " + file + " -o " + (folder / "race.slcase").string());
  EXPECT_EQ(packed.code, 2);
  EXPECT_THAT(packed.err, HasSubstr("copy the file, or its token"));
  const auto until = sluice("replay " + file + " --until seq=5");
  EXPECT_EQ(until.code, 2);
  EXPECT_THAT(until.err, HasSubstr("--schedule-only"));
}

TEST(ExploreFailure, AStuckOrderEndsStuckFromItsTokenAndFromItsRecording) {
  const Planted gate("gate");
  const Folder folder;
  const std::string file = (folder / "stuck.slrec").string();
  const std::string command = "explore -S 4 -M 8 -W 5 --order adaptive --record " + file;
  const auto found = sluice(command);
  ASSERT_EQ(found.code, 1) << found.out << found.err;
  EXPECT_THAT(found.out,
              AllOf(HasSubstr("stuck: every rank waits"), HasSubstr("0 of 100 finish: no race")));
  const std::string token = token_in(found.out);
  EXPECT_THAT(sluice("replay " + token).out, HasSubstr("stuck-as-recorded: "));
  const auto recorded = sluice("replay " + file);
  EXPECT_EQ(recorded.code, 1);
  EXPECT_THAT(recorded.out, AllOf(HasSubstr("stuck-as-recorded: an explored run"),
                                  HasSubstr("stuck: every rank waits"), HasSubstr("waits for")));
  const auto order = sluice("replay --schedule-only " + file);
  EXPECT_EQ(order.code, 1) << order.err;
  EXPECT_THAT(order.out, HasSubstr("stuck-as-recorded"));

  // What is there is not written over, and that is said before the search.
  const auto once_more = sluice(command);
  EXPECT_EQ(once_more.code, 2);
  EXPECT_EQ(once_more.out, "");
  EXPECT_THAT(once_more.err, HasSubstr("exists, and is not written over"));
}

// The program was mended: the recording of the failure no longer fits, and the replay says where.
TEST(ExploreFailure, WhatWasMendedDivergesFromItsRecording) {
  const Folder folder;
  const std::string file = (folder / "stuck.slrec").string();
  {
    const Planted gate("gate");
    ASSERT_EQ(sluice("explore -S 2 -M 4 --order adaptive -W 2 --record " + file).code, 1);
  }
  const auto mended = sluice("replay " + file);
  EXPECT_EQ(mended.code, 1) << mended.err;
  EXPECT_THAT(mended.out, AllOf(HasSubstr("diverged: an explored run"), HasSubstr("recorded"),
                                HasSubstr("nothing is wrong in this order")));
}

TEST(ExploreFailure, EveryStateOfANaiveGateEndsInItsSmallestToken) {
  const Planted gate("gate");
  const auto found = sluice("explore -S 4 -M 8 -W 5 --order adaptive --strategy exhaustive");
  ASSERT_EQ(found.code, 1) << found.err;
  EXPECT_THAT(found.out, AllOf(HasSubstr("stuck: every rank waits"),
                               HasSubstr("smallest          -S 1 -M 2 -W 1 --order adaptive: 0 "
                                         "deviations, fails 10 times of 10")));
  const std::string token = token_in(found.out);
  EXPECT_LE(token.size(), 64);
  const auto again = sluice("replay " + token);
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.out, HasSubstr("the plan's states"));
}

/// A gate tested on every turn, and one that is not.
std::string gate_in_python(bool latched) {
  return fmt::format(
      "import json, sys\n"
      "plan, held, open_ = {{}}, {{}}, {{}}\n"
      "for line in sys.stdin:\n"
      "    ask = json.loads(line)\n"
      "    rank = ask['rank']\n"
      "    if ask['kind'] == 'begin':\n"
      "        plan = ask['plan']\n"
      "        open_[rank] = False\n"
      "    if ask['kind'] != 'choose': continue\n"
      "    gate = plan['gate'] if rank == plan['ranks'] - 1 else 0\n"
      "    open_[rank] = ask['held'] >= gate or ({} and open_[rank])\n"
      "    take = [a for a in ask['ready'] if 'F' in a and ask['held'] < plan['credits'][rank]]\n"
      "    take += [a for a in ask['ready'] if 'B' in a and open_[rank]]\n"
      "    print(json.dumps({{'action': take[0] if take else None}}), flush=True)\n",
      latched ? "True" : "False");
}

TEST(ExploreFailure, APolicyOfOnesOwnIsAskedLiveInEveryOrder) {
  const Folder folder;
  const std::string good =
      "--policy 'python3 " + folder.file("good.py", gate_in_python(true)) + "'";
  const std::string bad = "--policy 'python3 " + folder.file("bad.py", gate_in_python(false)) + "'";
  const std::string shape = "explore -S 3 -M 5 -W 4 --order adaptive --runs 200 ";
  const auto clean = sluice(shape + good);
  EXPECT_EQ(clean.code, 0) << clean.out << clean.err;
  EXPECT_THAT(clean.out, AllOf(HasSubstr("asked live"), HasSubstr("nothing is wrong")));

  const std::string file = (folder / "own.slrec").string();
  const auto found = sluice(shape + bad + " --record " + file);
  ASSERT_EQ(found.code, 1) << found.out << found.err;
  EXPECT_THAT(found.out, AllOf(HasSubstr("stuck: every rank waits"), Not(HasSubstr("error"))));
  // The command that is printed runs just that order, and with the other policy it does not fail.
  const auto at = found.out.find("  sluice explore -S");
  ASSERT_NE(at, std::string::npos) << found.out;
  std::string command = found.out.substr(at + 9, found.out.find('\n', at) - at - 9);
  EXPECT_THAT(sluice(command).out, HasSubstr("stuck-as-recorded: "));
  const std::string bad_name = (folder / "bad.py").string();
  command.replace(command.find(bad_name), bad_name.size(), (folder / "good.py").string());
  EXPECT_THAT(sluice(command).out, HasSubstr("nothing is wrong in this order"));

  // No recording holds a policy: the commands that do without, and with, are named.
  const auto whole = sluice("replay " + file);
  EXPECT_EQ(whole.code, 2);
  EXPECT_THAT(whole.err, AllOf(HasSubstr("--schedule-only"), HasSubstr("sluice explore SHAPE")));
  EXPECT_THAT(sluice("replay --schedule-only " + file).out, HasSubstr("stuck-as-recorded"));
}

TEST(ExploreFailure, APolicyThatDiesOrAnswersNonsenseIsNoFailingOrder) {
  const std::string shape = "explore -S 3 -M 5 --order adaptive --runs 200 --policy ";
  const auto dead = sluice(shape + "'exit 3'");
  EXPECT_EQ(dead.code, 2);
  EXPECT_EQ(dead.out, "");
  EXPECT_THAT(dead.err, HasSubstr("the policy 'exit 3' has ended with exit code 3"));
  const auto nonsense = sluice(shape + "'while read line; do echo hello; done'");
  EXPECT_EQ(nonsense.code, 2);
  EXPECT_THAT(nonsense.err, HasSubstr("answered hello"));
  const auto whole = sluice(shape + "'exit 3' --strategy exhaustive");
  EXPECT_EQ(whole.code, 2);
  EXPECT_THAT(whole.err, HasSubstr("take another strategy, or --order fixed"));
}

}  // namespace
}  // namespace sluice::test
