#include <sluice/schedule.hpp>

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice {
namespace {

/// A rank's actions, comma separated.
std::string row(const Order& order, std::size_t rank) {
  std::string text;
  for (const Action& action : order[rank]) {
    if (!text.empty()) text += ',';
    text += to_string(action);
  }
  return text;
}

TEST(Schedule, NamesAreReadAsTheyAreWritten) {
  for (const char* name : {"drain", "1f1b", "gpipe", "eager-1f1b"}) {
    const auto parsed = parse_schedule_name(name);
    ASSERT_TRUE(parsed) << name;
    EXPECT_EQ(to_string(*parsed), name);
  }
  EXPECT_FALSE(parse_schedule_name("1F1B"));
  EXPECT_FALSE(parse_schedule_name(""));
}

TEST(Schedule, OneForwardOneBackward) {
  const Order order = static_order(4, 8, 3);
  ASSERT_EQ(order.size(), 4U);
  EXPECT_EQ(row(order, 0), "0F0,0F1,0F2,0F3,0B0,0F4,0B1,0F5,0B2,0F6,0B3,0F7,0B4,0B5,0B6,0B7");
  EXPECT_EQ(row(order, 1), "1F0,1F1,1F2,1B0,1F3,1B1,1F4,1B2,1F5,1B3,1F6,1B4,1F7,1B5,1B6,1B7");
  EXPECT_EQ(row(order, 2), "2F0,2F1,2B0,2F2,2B1,2F3,2B2,2F4,2B3,2F5,2B4,2F6,2B5,2F7,2B6,2B7");
  EXPECT_EQ(row(order, 3), "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3F4,3B4,3F5,3B5,3F6,3B6,3F7,3B7");
}

TEST(Schedule, OneMoreThanOneForwardOneBackward) {
  const Order order = static_order(4, 8, 4);
  EXPECT_EQ(row(order, 0), "0F0,0F1,0F2,0F3,0F4,0B0,0F5,0B1,0F6,0B2,0F7,0B3,0B4,0B5,0B6,0B7");
  EXPECT_EQ(row(order, 3), "3F0,3F1,3B0,3F2,3B1,3F3,3B2,3F4,3B3,3F5,3B4,3F6,3B5,3F7,3B6,3B7");
}

TEST(Schedule, FillAndDrain) {
  const Order order = static_order(4, 8, 8 + 4 - 2);
  EXPECT_EQ(row(order, 0), "0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0B0,0B1,0B2,0B3,0B4,0B5,0B6,0B7");
  EXPECT_EQ(row(order, 3), "3F0,3F1,3F2,3F3,3F4,3F5,3F6,3F7,3B0,3B1,3B2,3B3,3B4,3B5,3B6,3B7");
}

TEST(Schedule, FewerMicrobatchesThanStages) {
  const Order order = static_order(4, 2, 3);
  EXPECT_EQ(row(order, 0), "0F0,0F1,0B0,0B1");
  EXPECT_EQ(row(order, 1), "1F0,1F1,1B0,1B1");
  EXPECT_EQ(row(order, 2), "2F0,2F1,2B0,2B1");
  EXPECT_EQ(row(order, 3), "3F0,3B0,3F1,3B1");
}

TEST(Schedule, OneMicrobatch) {
  for (const int drain_depth : {7, 8, 20}) {
    const Order order = static_order(8, 1, drain_depth);
    for (std::size_t s = 0; s < 8; ++s) {
      EXPECT_EQ(row(order, s), std::to_string(s) + "F0," + std::to_string(s) + "B0");
    }
  }
}

}  // namespace
}  // namespace sluice
