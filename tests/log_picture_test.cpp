#include <sluice/log_picture.hpp>

#include <string>

#include <gtest/gtest.h>

#include <sluice/log_check.hpp>

#include "log_builder.hpp"

namespace sluice {
namespace {

using test::LogBuilder;
using test::shape;

LogPicture picture_of(const LogBuilder& log, const std::optional<PlanConfig>& config) {
  LogCheck check(config ? std::optional(derive_plan(*config)) : std::nullopt);
  check.keep_picture();
  check.feed(check.add("run.log"), log.text());
  return check.picture(check.finish());
}

TEST(LogPicture, TheFirstWrongCellUnderTheDerivedOne) {
  EXPECT_EQ(picture_of(LogBuilder(test::depth(shape(2, 3), 0)), shape(2, 3)).text(),
            "planned\n"
            "stage 0 |0  1  ...[0]2  [1]...[2]\n"
            "stage 1 |...0  [0]1  [1]2  [2]...\n"
            "measured\n"
            "stage 0 |0  ......[0]1  ......[1]\n"
            "                  ^ seq 7: plan-order\n"
            "stage 1 |...0  [0]......1  [1]...\n"
            "up to t = 8 of 12: 4 of 12 actions end later\n");
}

TEST(LogPicture, NoRowForEveryNumberThatAStageCanHave) {
  LogBuilder log(shape(2, 3));
  log.change("1F2 enter", [](LogRecord& record) { record.action.stage = StageId(2147483645); });
  for (const auto& config : {std::optional(shape(2, 3)), std::optional<PlanConfig>()}) {
    EXPECT_EQ(picture_of(log, config).text(), "");
    EXPECT_TRUE(picture_of(log, config).tracks().empty());
  }
}

TEST(LogPicture, NothingWrongNoArrow) {
  const LogPicture picture = picture_of(LogBuilder(shape(2, 3)), shape(2, 3));
  EXPECT_EQ(picture.text(),
            "planned\n"
            "stage 0 |0  1  ...[0]2  [1]...[2]\n"
            "stage 1 |...0  [0]1  [1]2  [2]...\n"
            "measured\n"
            "stage 0 |0  1  ...[0]2  [1]...[2]\n"
            "stage 1 |...0  [0]1  [1]2  [2]...\n");
  ASSERT_EQ(picture.tracks().size(), 2U);
  EXPECT_FALSE(picture.tracks()[1].mark);
  EXPECT_TRUE(picture_of(LogBuilder(std::vector<LogRecord>()), shape(2, 3)).tracks().empty());
}

TEST(LogPicture, TracksForADrawing) {
  const PlanConfig deep = test::depth(shape(2, 3), 0);
  const LogPicture plain = picture_of(LogBuilder(deep), shape(2, 3));
  const std::vector<Track> tracks = plain.tracks();
  ASSERT_EQ(tracks.size(), 2U);
  EXPECT_EQ(tracks[0].heading, "planned");
  EXPECT_EQ(tracks[0].span, tracks[1].span);  // in one unit, so that they can be compared
  EXPECT_EQ(tracks[1].actions.size(), 12U);
  ASSERT_TRUE(tracks[1].mark);
  EXPECT_EQ(tracks[1].mark->stage, StageId(0));
  EXPECT_EQ(tracks[1].mark->text, "seq 7: plan-order");
  EXPECT_EQ(tracks[1].mark->at, Time::from_units(3));
  // With clocks the measured times are milliseconds since the step began.
  const LogPicture timed = picture_of(
      LogBuilder(deep).change_all([](LogRecord& r) { r.t_ns = 1'000'000'000 + r.seq * 500'000; }),
      {});
  ASSERT_EQ(timed.tracks().size(), 1U);
  EXPECT_EQ(timed.tracks()[0].unit, " ms");
  EXPECT_EQ(timed.tracks()[0].actions[1].start, Time::from_units(1));
  EXPECT_EQ(timed.tracks()[0].actions[1].end, Time::from_units(1.5));
}

}  // namespace
}  // namespace sluice
