// What sluice train records unasked, what a full disk costs it, and what a killed run leaves.

#include <algorithm>
#include <csignal>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <sluice/replay/recording.hpp>

#include "small_run.hpp"

namespace sluice::test {
namespace {

using replay::Recording;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class RecordCommand : public SmallRun {
 protected:
  static std::string contents(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

  /// The recordings in the test's folder.
  std::vector<std::string> recordings() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "")) {
      if (entry.path().extension() == ".slrec") found.push_back(entry.path().string());
    }
    return found;
  }
};

/// Files of this process's children do not grow beyond it. What would follow is a signal.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(RecordCommand, ARunThatEndsWellLeavesNothingUnasked) {
  const auto run = train("--json");
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.err, "");
  EXPECT_FALSE(run.json().contains("recording"));
  EXPECT_THAT(recordings(), IsEmpty());
}

TEST_F(RecordCommand, ARunThatFailsLeavesItsLastEvents) {
  const auto run = train("--json --set train.fail=1F3 --set train.fail_step=2");
  EXPECT_EQ(run.code, 1);
  ASSERT_EQ(recordings().size(), 1U);
  const std::string name = std::filesystem::path(recordings()[0]).filename().string();
  EXPECT_THAT(run.err, HasSubstr("its last events are in " + name));
  EXPECT_EQ(run.json()["recording"], name);
  const auto recording = Recording::open(recordings()[0]);
  EXPECT_EQ(recording->header().mode, replay::RecordingMode::ring);
  ASSERT_EQ(recording->steps(), 3U);
  EXPECT_THAT(recording->step(2).error, HasSubstr("stage 1, mb 3, F failed"));
  const auto again = sluice("replay --json " + name);
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(again.json()["verdict"], "failed-as-recorded");
}

TEST_F(RecordCommand, WhatTheFailingActionWasGivenCanBeTakenOut) {
  const std::string fail = "--set train.fail=1F3 --set train.fail_step=2 ";
  std::string first;
  for (const char* mode : {"ring", "full", "verify"}) {
    EXPECT_EQ(train(fmt::format("{} --record-mode {} --record {}.slrec", fail, mode, mode)).code,
              1);
    const auto shown = sluice(fmt::format("show {}.slrec", mode));
    EXPECT_THAT(shown.out, HasSubstr("1F3     input          896 bytes  f4 (8, 24)"));
    const auto json = sluice(fmt::format("show {}.slrec --json --step 2", mode)).json();
    ASSERT_EQ(json["steps"][0]["values"].size(), 1U);
    EXPECT_EQ(json["steps"][0]["values"][0]["shape"], "(8, 24)");
    EXPECT_EQ(sluice(fmt::format("show {0}.slrec --input 1F3 -o {0}.npy", mode)).code, 0);
    const std::string bytes = contents(path(fmt::format("{}.npy", mode)));
    EXPECT_EQ(bytes.substr(0, 6), "\x93NUMPY");
    ASSERT_EQ(bytes.size(), 128U + 8 * 24 * 4);
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first);
    EXPECT_GT(std::set<char>(bytes.begin() + 128, bytes.end()).size(), 20U);
  }
  EXPECT_THAT(sluice("show ring.slrec --input 1F3").err, HasSubstr("expected -o FILE"));
  EXPECT_THAT(sluice("show ring.slrec --input F -o a.npy").err, HasSubstr("expected an action"));
  const auto other = sluice("show ring.slrec --input 0F0 -o a.npy");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("expected one of 1F3, the inputs that step 2 holds"));
  EXPECT_THAT(sluice("show ring.slrec --target 1F3 -o a.npy").err, HasSubstr("holds no target"));
  EXPECT_FALSE(std::filesystem::exists(path("a.npy")));
}

TEST_F(RecordCommand, OfTheLastStepsAllValuesAreThereWhenAsked) {
  EXPECT_EQ(train("--payload 2 --record-mode ring --record run.slrec --set train.epochs=20").code,
            0);
  const auto recording = Recording::open(path("run.slrec"));
  EXPECT_EQ(recording->header().mode, replay::RecordingMode::ring);
  const auto json = sluice("show run.slrec --json --step 99").json();
  // Inputs of 4 stages, 8 microbatches, forwards and backwards; the last one's targets.
  EXPECT_EQ(json["steps"][0]["values"].size(), 2U * 4 * 8 + 2 * 8);
  for (const auto& value : json["steps"][0]["values"]) EXPECT_TRUE(value["saved"]);
  EXPECT_EQ(sluice("show run.slrec --target 3F7 -o labels.npy").code, 0);
  EXPECT_EQ(contents(path("labels.npy")).size(), 128U + 8 * 4);
  EXPECT_THAT(sluice("show run.slrec").out, HasSubstr("more; --mb, --stage or --seq"));
  const auto nothing = train("--payload 2 --record-mode off");
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("nothing is recorded"));
  const auto refused = train("--payload 2 --record-mode full --record other.slrec");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("the last steps' values are kept in a ring"));
  const auto whole = train("--payload 2 --record other.slrec");
  EXPECT_EQ(whole.code, 2);
  EXPECT_THAT(whole.err, HasSubstr("--record-mode ring"));
  EXPECT_FALSE(std::filesystem::exists(path("other.slrec")));
}

TEST_F(RecordCommand, ARunThatGoesOnKeepsItsRecording) {
  struct Run {
    pid_t pid = 0;
    ~Run() {
      if (pid > 0) ::kill(pid, SIGKILL);
    }
  } first;
  ASSERT_EQ(std::system(fmt::format("'{}' train {} --set train.epochs=100000 --record run.slrec "
                                    ">out 2>&1 & echo $! >pid",
                                    SLUICE_COMMAND, config())
                            .c_str()),
            0);
  first.pid = std::stoi(contents(path("pid")));
  while (!std::filesystem::exists(path("run.slrec")) ||
         std::filesystem::file_size(path("run.slrec")) < 4 * replay::format::page_size) {
    ASSERT_EQ(::kill(first.pid, 0), 0) << contents(path("out"));
  }
  const auto second = train("--record run.slrec --overwrite");
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.err, HasSubstr("another run records into it"));
  ::kill(std::exchange(first.pid, 0), SIGKILL);
  while (train("--record run.slrec --overwrite").code != 0) {  // until the system has ended it
  }
  EXPECT_TRUE(Recording::open(path("run.slrec"))->closed());
}

TEST_F(RecordCommand, ARecordingThatExistsIsKept) {
  ASSERT_EQ(train("--record run.slrec").code, 0);
  const std::string before = contents(path("run.slrec"));
  const auto again = train("--record run.slrec");
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("--overwrite"));
  EXPECT_EQ(contents(path("run.slrec")), before);
  EXPECT_EQ(train("--record run.slrec --overwrite").code, 0);
}

TEST_F(RecordCommand, ARunThatDoesNotStartTouchesNeitherRecordingNorLog) {
  ASSERT_EQ(train("--record run.slrec --log run.log").code, 0);
  const std::string recording = contents(path("run.slrec"));
  const std::string log = contents(path("run.log"));
  EXPECT_EQ(train("--record run.slrec --overwrite --log nowhere/run.log").code, 2);
  EXPECT_EQ(contents(path("run.slrec")), recording);
  EXPECT_EQ(train("--record run.slrec --log run.log").code, 2);
  EXPECT_EQ(contents(path("run.log")), log);
  EXPECT_EQ(train("--record other.slrec --log nowhere/run.log").code, 2);
  EXPECT_FALSE(std::filesystem::exists(path("other.slrec")));
  EXPECT_EQ(train("--log ''").code, 2);
}

TEST_F(RecordCommand, AKilledRunLeavesItsLastEvents) {
  // Later and later, until the run had come as far as its recording.
  for (double seconds = 0.5; recordings().empty() && seconds < 60; seconds *= 2) {
    const std::string command =
        fmt::format("timeout -s KILL {} '{}' train {} --set train.epochs=100000 >out 2>&1", seconds,
                    SLUICE_COMMAND, config());
    EXPECT_NE(std::system(command.c_str()), 0);
  }
  ASSERT_EQ(recordings().size(), 1U);
  const auto recording = Recording::open(recordings()[0]);
  EXPECT_FALSE(recording->closed());
}

TEST_F(RecordCommand, EveryModeCanBeHad) {
  EXPECT_EQ(train("--record-mode off").code, 0);
  EXPECT_THAT(recordings(), IsEmpty());
  for (const auto& [mode, expected] : {std::pair("ring", replay::RecordingMode::ring),
                                       std::pair("full", replay::RecordingMode::full),
                                       std::pair("verify", replay::RecordingMode::verify)}) {
    const std::string file = path(std::string(mode) + ".slrec");
    EXPECT_EQ(train(fmt::format("--record-mode {} --record {}", mode, file)).code, 0);
    EXPECT_EQ(Recording::open(file)->header().mode, expected);
    EXPECT_TRUE(Recording::open(file)->closed());
  }
  // Asked for without a name, it is kept.
  EXPECT_EQ(train("--set record.mode=ring").code, 0);
  EXPECT_EQ(recordings().size(), 4U);
}

TEST_F(RecordCommand, ALongRunInARingKeepsItsSize) {
  const auto run = train(
      "--json --set train.epochs=60 --set record.ring_bytes=1 --record-mode ring --record "
      "ring.slrec");
  EXPECT_EQ(run.code, 0);
  const auto recording = Recording::open(path("ring.slrec"));
  EXPECT_EQ(recording->first_step() + static_cast<std::int64_t>(recording->steps()), 300);
}

TEST_F(RecordCommand, AFullDiskEndsTheRunWithItsStep) {
  const SizeLimit limit(100'000);
  const auto run = train("--json --set train.epochs=40 --record run.slrec");
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("error: step "), HasSubstr("free disk space")));
  const auto steps = run.json()["steps"].get<std::size_t>();
  EXPECT_GT(steps, 5U);
  EXPECT_EQ(Recording::open(path("run.slrec"))->steps(), steps);
}

TEST_F(RecordCommand, AFullDiskCostsTheRecordingAloneWhenAsked) {
  const SizeLimit limit(100'000);
  const auto run =
      train("--json --set train.epochs=40 --set record.on_error=continue --record run.slrec");
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.err, HasSubstr("warning: the recording ends before the run does"));
  EXPECT_EQ(run.json()["steps"], 200);
  EXPECT_LT(Recording::open(path("run.slrec"))->steps(), 200U);
}

TEST_F(RecordCommand, WhereNothingCanBeWrittenTheRunGoesOnUnlessARecordingWasAskedFor) {
  EXPECT_EQ(train("--record /missing/run.slrec").code, 2);
  const auto told = train("--record /missing/run.slrec --set record.on_error=continue");
  EXPECT_EQ(told.code, 0);
  EXPECT_THAT(told.err, HasSubstr("warning: the run is not recorded"));
  EXPECT_THAT(recordings(), IsEmpty());
}

TEST_F(RecordCommand, RecordingChangesNoNumber) {
  const auto without = train("--json --record-mode off").json();
  for (const char* mode : {"ring", "full", "verify"}) {
    const auto with = train(fmt::format("--json --record-mode {}", mode)).json();
    EXPECT_EQ(with["weights_hash"], without["weights_hash"]) << mode;
    EXPECT_EQ(with["loss"], without["loss"]) << mode;
  }
}

}  // namespace
}  // namespace sluice::test
