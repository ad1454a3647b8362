#include <sluice/schedule_csv.hpp>

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/finding.hpp>

namespace sluice {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Why `text` is refused; empty when it is not.
std::string refusal(const std::string& text, const ScheduleCsvOptions& options = {}) {
  try {
    read_schedule_csv(text, options);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.findings().size(), 1U);
    EXPECT_EQ(error.findings()[0].rule, "schedule");
    return error.what();
  }
  return "";
}

TEST(ScheduleCsv, ARowIsARank) {
  const auto [schedule, microbatches, cells] =
      read_schedule_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(cells.size(), 2U);
  EXPECT_EQ(microbatches, 2);
  EXPECT_EQ(schedule.order, static_order(2, 2, 1));
  EXPECT_THAT(schedule.rank_of, ElementsAre(RankId(0), RankId(1)));
}

TEST(ScheduleCsv, BlanksIdleCellsAndWindowsLineEndsMeanNothing) {
  const auto plain = read_schedule_csv("0F0,0I0,0W0\n1F0,1B0\n").schedule;
  const auto loose = read_schedule_csv(" 0F0 ,,\t0I0, ,0W0,\r\n,1F0,1B0 ").schedule;
  EXPECT_EQ(plain.order, loose.order);
}

TEST(ScheduleCsv, WhatIsWrittenIsReadBack) {
  for (const ScheduleName name :
       {ScheduleName::interleaved, ScheduleName::looped_bfs, ScheduleName::zb_h1,
        ScheduleName::zb_h2, ScheduleName::zb_v, ScheduleName::dualpipe_v}) {
    const Schedule schedule = listed_schedule(name, 4, 6, default_chunks(name));
    const auto read = read_schedule_csv(write_schedule_csv(schedule));
    EXPECT_EQ(read.schedule.order, schedule.order) << to_string(name);
    EXPECT_EQ(read.schedule.rank_of, schedule.rank_of) << to_string(name);
    EXPECT_EQ(read.schedule.overlapped, schedule.overlapped) << to_string(name);
    EXPECT_EQ(read.microbatches, 6) << to_string(name);
  }
}

// A schedule of ten microbatches as another system writes it, first and last rank.
TEST(ScheduleCsv, DualPipeVIsWrittenAsElsewhere) {
  const std::string text = write_schedule_csv(listed_schedule(ScheduleName::dualpipe_v, 8, 10, 2));
  EXPECT_TRUE(text.starts_with(
      "0F0,0F1,0F2,0F3,0F4,0F5,0F6,7F0,7I0,7W0,7F1,7I1,7W1,7F2,7I2,7W2,7F3,"
      "(0F7;7B3)OVERLAP_F_B,(7F4;0B0)OVERLAP_F_B,(0F8;7B4)OVERLAP_F_B,(7F5;0B1)OVERLAP_F_B,"
      "(0F9;7B5)OVERLAP_F_B,(7F6;0B2)OVERLAP_F_B,7B6,(7F7;0B3)OVERLAP_F_B,7B7,"
      "(7F8;0B4)OVERLAP_F_B,7B8,(7F9;0B5)OVERLAP_F_B,7B9,0I6,0W6,0I7,0W7,0I8,0W8,0I9,0W9\n"));
  EXPECT_TRUE(text.ends_with(
      "\n3F0,4F0,3F1,4F1,3F2,4F2,3F3,4F3,3F4,4B0,(4F4;3B0)OVERLAP_F_B,(3F5;4B1)OVERLAP_F_B,"
      "(4F5;3B1)OVERLAP_F_B,(3F6;4B2)OVERLAP_F_B,(4F6;3B2)OVERLAP_F_B,(3F7;4B3)OVERLAP_F_B,"
      "(4F7;3B3)OVERLAP_F_B,(3F8;4B4)OVERLAP_F_B,(4F8;3B4)OVERLAP_F_B,(3F9;4B5)OVERLAP_F_B,"
      "(4F9;3B5)OVERLAP_F_B,4B6,3B6,4B7,3B7,4I8,3I8,4I9,3I9,4W8,3W8,4W9,3W9\n"));
}

TEST(ScheduleCsv, TheOlderNotationIsReadWhenAskedFor) {
  ScheduleCsvOptions legacy;
  legacy.legacy = true;
  const auto read = read_schedule_csv("0F0,0BW0\n1F0,1B0,1W0\n", legacy);
  EXPECT_EQ(write_schedule_csv(read.schedule), "0F0,0B0\n1F0,1I0,1W0\n");
  EXPECT_THAT(refusal("0F0,0BW0\n"), AllOf(HasSubstr("column 2"), HasSubstr("legacy")));
  EXPECT_THAT(refusal("0F0,0B0,0W0\n"), AllOf(HasSubstr("column 3"), HasSubstr("older notation")));
}

const std::string with_comms =
    "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
    "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";

/// `with_comms` after a change.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = with_comms;
  return text.replace(text.find(from), from.size(), to);
}

TEST(ScheduleCsv, CommunicationIsCheckedAndLeftToTheRuntime) {
  const auto read = read_schedule_csv(with_comms);
  EXPECT_EQ(read.schedule.order, static_order(2, 2, 1));
  EXPECT_EQ(write_schedule_csv(read), with_comms);
}

TEST(ScheduleCsv, CommunicationThatCannotWorkIsRefused) {
  EXPECT_THAT(refusal(changed(",0SEND_F1", "")),
              AllOf(HasSubstr("row 1, column 10"), HasSubstr("0SEND_F1, which is missing")));
  EXPECT_THAT(refusal(changed(",0SEND_F1", ",0SEND_F0")),
              AllOf(HasSubstr("row 1, column 5"), HasSubstr("each value once")));
  EXPECT_THAT(refusal(changed("0F0,0SEND_F0", "0SEND_F0,0F0")),
              AllOf(HasSubstr("row 1, column 2"), HasSubstr("0F0 before it")));
  EXPECT_THAT(refusal(changed("1RECV_F0,1F0", "1F0,1RECV_F0")),
              AllOf(HasSubstr("row 2, column 2"), HasSubstr("1F0 behind it")));
  EXPECT_THAT(refusal(changed("0SEND_F0", "1SEND_F0")), HasSubstr("stage 1 on rank 1 alone"));
  EXPECT_THAT(refusal(changed("0SEND_F0", "0SEND_B0")), HasSubstr("from, another rank"));
  EXPECT_THAT(refusal(changed("0SEND_F0", "0SEND_F2")), HasSubstr("a microbatch from 0 to 1"));
  EXPECT_THAT(refusal(changed("0UNSHARD", "4UNSHARD")), HasSubstr("a stage from 0 to 1"));
}

TEST(ScheduleCsv, TransfersThatWaitForEachOtherAreRefused) {
  // Rank 0 wants its first gradient before it sends the second output, which rank 1 wants first.
  EXPECT_THAT(
      refusal("0F0,0SEND_F0,0F1,0RECV_B0,0SEND_F1,0B0,0RECV_B1,0B1\n"
              "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n"),
      AllOf(HasSubstr("row 1, column 4"), HasSubstr("an order of transfers that can finish")));
}

TEST(ScheduleCsv, WhatWasReadIsWrittenBackWithItsIdleSlots) {
  const std::string text = "0F0,,0F1,0B0,0B1\n,1F0,1B0,1F1,1B1\n";
  EXPECT_EQ(write_schedule_csv(read_schedule_csv(text)), text);
}

TEST(ScheduleCsv, AnArrowPointsAtTheCell) {
  EXPECT_EQ(refusal("0F0,0B0\n1F0, 1X0\n"),
            "schedule, row 2, column 2: expected stage, one of F, B, I, W, microbatch, as in 2F5, "
            "found 1X0\n"
            "  1F0, 1X0\n"
            "       ^");
}

TEST(ScheduleCsv, AMicrobatchThatDoesNotExist) {
  ScheduleCsvOptions one;
  one.stages = 2;
  one.microbatches = 1;
  EXPECT_THAT(refusal("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", one),
              AllOf(HasSubstr("row 1, column 2"), HasSubstr("from 0 to 0"), HasSubstr("0F1")));
}

TEST(ScheduleCsv, WhatIsWrongIsRefusedWithItsPlace) {
  EXPECT_THAT(refusal(""), HasSubstr("row 1, column 1"));
  EXPECT_THAT(refusal("0F0,0B0\n\n1F0,1B0\n"), AllOf(HasSubstr("row 2"), HasSubstr("empty row")));
  EXPECT_THAT(refusal("0F0x,0B0\n"), AllOf(HasSubstr("column 1"), HasSubstr("0F0x")));
  EXPECT_THAT(refusal("0F0,0B\n"), AllOf(HasSubstr("column 2"), HasSubstr("0B")));
  EXPECT_THAT(refusal("0F0,0F0,0B0\n"), AllOf(HasSubstr("column 2"), HasSubstr("once")));
  EXPECT_THAT(refusal("0F0,0B0,0F1\n"), AllOf(HasSubstr("column 4"), HasSubstr("0B1")));
  EXPECT_THAT(refusal("0F0,0I0\n"), AllOf(HasSubstr("column 3"), HasSubstr("0W0")));
  EXPECT_THAT(refusal("0B0,0F0\n"), AllOf(HasSubstr("column 1"), HasSubstr("0F0 before it")));
  EXPECT_THAT(refusal("0F0,0W0,0I0\n"), AllOf(HasSubstr("column 2"), HasSubstr("0I0 before it")));
  EXPECT_THAT(refusal("0F0,0B0,1F0\n1B0,2F0,2B0\n"),
              AllOf(HasSubstr("row 2, column 1"), HasSubstr("stage 1 on rank 0 alone")));
  EXPECT_THAT(refusal("0F0,0B0\n2F0,2B0\n"), HasSubstr("stage 1"));
  EXPECT_THAT(refusal("0F0,1F0,0B0,1B0\n"),
              AllOf(HasSubstr("row 1, column 3"), HasSubstr("stuck")));
  EXPECT_THAT(refusal("0F0,SEND_F,0B0\n"), AllOf(HasSubstr("column 2"), HasSubstr("SEND_F")));
  EXPECT_THAT(refusal("0F0,0UNSHARD3,0B0\n"), HasSubstr("column 2"));
  EXPECT_THAT(refusal("0F0,(0F1;0B0)OVERLAP,0B1\n"), HasSubstr("OVERLAP_F_B"));
  EXPECT_THAT(refusal("0F0,(0F1;0I0)OVERLAP_F_B,0W0,0B1\n"), HasSubstr("whole backward"));
  EXPECT_THAT(refusal("0F0,0F2000000000,0B0\n"), HasSubstr("column 2"));
  EXPECT_THAT(refusal("0F0,2000000000F0,0B0\n"), HasSubstr("column 2"));
  EXPECT_THAT(refusal("0F0,99999999999F0,0B0\n"), HasSubstr("column 2"));
}

}  // namespace
}  // namespace sluice
