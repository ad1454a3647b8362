#include <sluice/log_pattern.hpp>

#include <optional>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace sluice {
namespace {

std::optional<LogLine> match(std::string_view pattern, std::string_view line) {
  LogLine read;
  return LogPattern(pattern).match(line, read) ? std::optional(read) : std::nullopt;
}

TEST(LogPattern, AnyTextNumbersAndWords) {
  const auto read = match("... step {seq} ... stage={stage} ... fwd mb {mb} start",
                          "12:00:01 INFO [host] step 17 | stage=2 dev=cuda:1 fwd mb 5 start");
  ASSERT_TRUE(read);
  EXPECT_EQ(to_string(read->record.action), "2F5");
  EXPECT_EQ(read->record.event, LogRecord::Event::enter);
  EXPECT_EQ(read->record.seq, 17);
  EXPECT_TRUE(read->numbered);
}

TEST(LogPattern, ThePhaseAndTheEventCanBeAskedFor) {
  const auto joined = match("{phase}{mb}@{stage} {event}...", "F3@1 begin of it");
  ASSERT_TRUE(joined);
  EXPECT_EQ(to_string(joined->record.action), "1F3");
  const auto other = match("{phase} {mb}@{stage} {event}...", "Backward 3@1 Finished after 5 ms");
  ASSERT_TRUE(other);
  EXPECT_EQ(to_string(other->record.action), "1B3");
  EXPECT_EQ(other->record.event, LogRecord::Event::exit);
  EXPECT_FALSE(other->numbered);
}

TEST(LogPattern, OtherLinesAreOfNoInterest) {
  constexpr std::string_view pattern = "fwd {mb} on {stage} start";
  EXPECT_TRUE(match(pattern, "fwd 3 on 1 start"));
  for (const std::string_view line :
       {"", "fwd", "fwd x on 1 start", "fwd 3 on 1 started", " fwd 3 on 1 start",
        "bwd 3 on 1 start", "fwd 99999999999 on 1 start", "fwd -3 on 1 start"}) {
    EXPECT_FALSE(match(pattern, line)) << line;
  }
}

TEST(LogPattern, WhatIsMissingIsSaid) {
  const auto complaint = [](std::string_view pattern) {
    try {
      const LogPattern made(pattern);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(complaint("fwd {mb} start").find("{stage}"), std::string::npos);
  EXPECT_NE(complaint("fwd on {stage} start").find("{mb}"), std::string::npos);
  EXPECT_NE(complaint("{mb} {stage} start").find("fwd or bwd"), std::string::npos);
  EXPECT_NE(complaint("fwd {mb} {stage}").find("start or end"), std::string::npos);
  EXPECT_NE(complaint("fwd {mb} {stag} start").find("{stag}"), std::string::npos);
  EXPECT_NE(complaint("fwd {mb} {mb} start").find("twice"), std::string::npos);
  EXPECT_NE(complaint("fwd {mb").find("without"), std::string::npos);
}

TEST(LogPattern, ALongLineWithManyGapsTakesNoLongTime) {
  const std::string line(1 << 20, 'a');
  EXPECT_FALSE(match("...a...a...a...a{mb}...{stage} fwd start", line));
}

}  // namespace
}  // namespace sluice
