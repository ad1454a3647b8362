#include <sluice/log_picture.hpp>

#include <string>

#include <gtest/gtest.h>

#include <sluice/log_check.hpp>

#include "log_builder.hpp"

namespace sluice {
namespace {

using test::LogBuilder;
using test::shape;

std::string picture_of(const LogBuilder& log, const std::optional<PlanConfig>& config) {
  LogCheck check(config ? std::optional(derive_plan(*config)) : std::nullopt);
  check.keep_picture();
  check.feed(check.add("run.log"), log.text());
  return check.picture(check.finish());
}

TEST(LogPicture, TheFirstWrongCellUnderTheDerivedOne) {
  EXPECT_EQ(picture_of(LogBuilder(test::depth(shape(2, 3), 0)), shape(2, 3)),
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
  EXPECT_EQ(picture_of(log, shape(2, 3)), "");
  EXPECT_EQ(picture_of(log, {}), "");
}

TEST(LogPicture, NothingWrongNothingDrawn) {
  EXPECT_EQ(picture_of(LogBuilder(shape(2, 3)), shape(2, 3)), "");
}

}  // namespace
}  // namespace sluice
