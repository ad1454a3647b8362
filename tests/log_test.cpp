#include <sluice/log.hpp>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/plan.hpp>

namespace sluice {
namespace {

using testing::ElementsAre;

std::vector<LogRecord> log_of(int stages, int microbatches, double backward = 1) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  config.costs.backward = {Time::from_units(backward)};
  return expected_log(derive_plan(config).timeline);
}

std::vector<std::string> lines(const std::vector<LogRecord>& log) {
  std::vector<std::string> result;
  for (const LogRecord& record : log) result.push_back(to_line(record));
  return result;
}

TEST(Log, ALine) {
  LogRecord record;
  record.seq = 1;
  record.action = *parse_action("0F0");
  EXPECT_EQ(to_line(record), "seq=0001 mb=0 stage=0 phase=F event=enter");
  record.seq = 12345;
  record.action = *parse_action("3W17");
  record.event = LogRecord::Event::exit;
  record.step = 2;
  record.rank = RankId(1);
  record.t_ns = 987654321;
  EXPECT_EQ(to_line(record),
            "seq=12345 mb=17 stage=3 phase=W event=exit step=2 rank=1 t=987654321");
}

TEST(Log, ThePlanOfTwoStagesAndOneMicrobatch) {
  EXPECT_THAT(
      lines(log_of(2, 1)),
      ElementsAre(
          "seq=0001 mb=0 stage=0 phase=F event=enter", "seq=0002 mb=0 stage=0 phase=F event=exit",
          "seq=0003 mb=0 stage=1 phase=F event=enter", "seq=0004 mb=0 stage=1 phase=F event=exit",
          "seq=0005 mb=0 stage=1 phase=B event=enter", "seq=0006 mb=0 stage=1 phase=B event=exit",
          "seq=0007 mb=0 stage=0 phase=B event=enter", "seq=0008 mb=0 stage=0 phase=B event=exit"));
}

TEST(Log, FourRecordsForEveryStageAndMicrobatch) {
  EXPECT_EQ(log_of(4, 8, 2).size(), 128U);
  EXPECT_EQ(log_of(4, 1, 2).size(), 16U);
}

TEST(Log, WhatTakesNoTimeStillFollowsItsCause) {
  PlanConfig config;
  config.stages = 3;
  config.microbatches = 2;
  config.costs.forward = {Time()};
  config.costs.backward = {Time()};
  std::vector<std::vector<int>> forward_exits(2);
  for (const LogRecord& record : expected_log(derive_plan(config).timeline)) {
    if (record.action.phase != Phase::forward) continue;
    auto& exits = forward_exits[record.action.mb.index()];
    if (record.event == LogRecord::Event::exit) {
      exits.push_back(record.action.stage.value);
    } else {
      EXPECT_EQ(exits.size(), record.action.stage.index());
    }
  }
}

}  // namespace
}  // namespace sluice
