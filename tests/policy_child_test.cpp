// The child process that decides: what it is asked, what its answers do, and what every way in which it
// can fail is told. The children here are one-line shell programs.
#include "../tools/policy_child.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sluice/plan.hpp>
#include <sluice/policy_timeline.hpp>

namespace sluice::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

Plan plan_of(int stages, int microbatches) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  return derive_plan(config);
}

/// Why a step with this child ends, and how much of it is waited for.
std::string failure_of(const std::string& command,
                       std::chrono::milliseconds patience = std::chrono::seconds(20)) {
  PolicyChild child(command, patience);
  try {
    simulate_policy(plan_of(2, 2), child);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// Answers every question with `answer`.
std::string always(const std::string& answer) {
  return "while read line; do case $line in *choose*) echo '" + answer + "';; esac; done";
}

/// Takes the first that is ready: the last of `ready` in the line, cut at its quotes.
const std::string first_ready =
    R"sh(while read line; do case $line in *choose*) echo "$line" | sed 's/.*"ready":."\([^"]*\)".*/{"action":"\1"}/';; esac; done)sh";

TEST(PolicyChild, DecidesEveryAction) {
  PolicyChild child(first_ready);
  const Plan plan = plan_of(2, 3);
  const Timeline timeline = simulate_policy(plan, child);
  EXPECT_EQ(timeline.actions.size(), 12);
  // Forward first: by (stage, phase, microbatch).
  EXPECT_EQ(to_string(order_of(timeline)[1][1]), "1F1");
}

TEST(PolicyChild, ServesStepAfterStep) {
  PolicyChild child(first_ready);
  const Plan plan = plan_of(2, 2);
  const Order once = order_of(simulate_policy(plan, child));
  EXPECT_EQ(order_of(simulate_policy(plan, child)), once);
}

TEST(PolicyChild, WaitingWhereNothingCanArriveIsStuck) {
  EXPECT_THAT(failure_of(always(R"({"action":null})")),
              HasSubstr("the policy waits where nothing more can arrive: rank 0 waits and could "
                        "start 0F0 0F1; rank 1 has nothing it could start"));
}

TEST(PolicyChild, NonsenseIsShownWithTheQuestion) {
  for (const char* answer : {"hello", "{}", R"({"action":1})", R"({"action":"0B1"})", "[]",
                             R"({"action":"0F0","and":"more"})", ""}) {
    const std::string failure = failure_of(always(answer));
    EXPECT_THAT(failure, HasSubstr(std::string("answered ") + answer));
    EXPECT_THAT(failure, HasSubstr(R"("ready":["0F0","0F1"])"));
    EXPECT_THAT(failure, HasSubstr("expected a line"));
  }
}

TEST(PolicyChild, OneThatDiesIsNamedWithItsExitCode) {
  EXPECT_THAT(failure_of("exit 3"), HasSubstr("the policy 'exit 3' has ended with exit code 3"));
  EXPECT_THAT(failure_of("read line; kill -9 $$"), HasSubstr("was ended by signal 9"));
  EXPECT_THAT(failure_of("no-such-program-anywhere 2>/dev/null"),
              HasSubstr("has ended with exit code 127"));
}

TEST(PolicyChild, OneThatStaysSilentIsWaitedForOnlySoLong) {
  EXPECT_THAT(failure_of("sleep 600", std::chrono::milliseconds(100)),
              HasSubstr("has not answered for 0.1 s (does it flush"));
}

TEST(PolicyChild, AnEndlessLineIsNoAnswer) {
  EXPECT_THAT(failure_of("cat /dev/zero"), HasSubstr("answered without an end of line"));
}

TEST(PolicyChild, ItsFirstFailureStays) {
  PolicyChild child("exit 3");
  const Plan plan = plan_of(2, 2);
  for (int step = 0; step < 3; ++step) {
    EXPECT_THROW(simulate_policy(plan, child), std::runtime_error);
  }
}

TEST(PolicyChild, LeavesNoProcessBehind) {
  std::string failure;
  {
    PolicyChild child("echo $$; sleep 600 & wait", std::chrono::seconds(20));
    try {
      simulate_policy(plan_of(2, 2), child);
    } catch (const std::exception& error) {
      failure = error.what();
    }
  }
  // The shell's number, as its nonsense answer showed it: gone, and its whole group with it.
  const auto start = failure.find("answered ") + 9;
  const auto pid = std::stoi(failure.substr(start));
  ASSERT_GT(pid, 1);
  EXPECT_EQ(::kill(pid, 0), -1);
  // What it had started is init's to reap; it is dead or about to be.
  for (int i = 0; i < 1000 && ::kill(-pid, 0) == 0; ++i) ::usleep(10000);
  EXPECT_EQ(::kill(-pid, 0), -1);
}

TEST(PolicyChild, ItsProcessesEndWithOursHoweverThatEnds) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-pid-XXXXXX").string();
    ::close(::mkstemp(name.data()));
    const pid_t ours = ::fork();
    if (ours == 0) {
      PolicyChild child("echo $$ >" + name + "; (trap '' HUP TERM; sleep 600) & wait");
      ::pause();
    }
    pid_t group = 0;
    for (int i = 0; i < 1000 && group == 0; ++i) {
      ::usleep(10000);
      std::ifstream(name) >> group;
    }
    std::filesystem::remove(name);
    ASSERT_GT(group, 1);
    ::kill(ours, signal);
    ::waitpid(ours, nullptr, 0);
    for (int i = 0; i < 1000 && ::kill(-group, 0) == 0; ++i) ::usleep(10000);
    EXPECT_EQ(::kill(-group, 0), -1) << signal;
  }
}

TEST(PolicyChild, WhoWaitsIsToldForWhom) {
  testing::internal::CaptureStderr();
  failure_of("sleep 600", std::chrono::milliseconds(200));
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("waiting for the policy 'sleep 600': no answer for 0.1 s, given up after 0.2 s"));
}

}  // namespace
}  // namespace sluice::tools
