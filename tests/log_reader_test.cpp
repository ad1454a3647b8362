#include <sluice/log_reader.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Read {
  std::vector<LogLine> lines;
  std::optional<LogProblem> problem;
  bool cut_short = false;
};

Read read(std::string_view text, std::size_t piece = std::string_view::npos) {
  LogReader reader(3);
  Read result;
  for (std::size_t from = 0; from < text.size(); from += std::min(piece, text.size())) {
    reader.feed(text.substr(from, piece), result.lines);
  }
  reader.finish(result.lines);
  result.problem = reader.problem();
  result.cut_short = reader.cut_short();
  return result;
}

LogRecord record_of(std::string_view action, std::int64_t seq, LogRecord::Event event) {
  LogRecord record;
  record.seq = seq;
  record.action = *parse_action(action);
  record.event = event;
  return record;
}

constexpr std::string_view good_line = "seq=0001 mb=5 stage=2 phase=F event=enter\n";

TEST(LogReader, ReadsWhatTheWriterWrites) {
  LogRecord record = record_of("2F5", 17, LogRecord::Event::exit);
  record.step = 4;
  record.rank = RankId(2);
  record.t_ns = -123456789;
  const Read result = read(to_line(record) + "\n");
  ASSERT_THAT(result.lines, SizeIs(1));
  EXPECT_EQ(result.lines[0].record, record);
  EXPECT_EQ(result.lines[0].line, 1);
  EXPECT_EQ(result.lines[0].source, 3);
  EXPECT_TRUE(result.lines[0].numbered);
}

TEST(LogReader, AnyOrderOfFieldsAndUnknownOnes) {
  const LogRecord expected = record_of("2F5", 17, LogRecord::Event::enter);
  for (const std::string_view text :
       {"event=enter phase=F stage=2 mb=5 seq=17\n",
        "host=a17 note=\"two words = one\" seq=0017   mb=5\tstage=2 phase=F event=enter loss=\n",
        "{\"seq\":17,\"mb\":5,\"stage\":2,\"phase\":\"F\",\"event\":\"enter\"}\n",
        " { \"x\": {\"seq\": [1, \"}\\\"\"]}, \"event\":\"enter\", \"phase\":\"F\", \"stage\":2, "
        "\"mb\":5, \"seq\":17, \"y\":null } \n",
        "seq,mb,stage,phase,event\n17,5,2,F,enter\n",
        "host,event,\"phase\",stage, mb ,seq,t\n\"a, b\",enter,F,2, 5 ,17,\n"}) {
    const Read result = read(text);
    ASSERT_THAT(result.lines, SizeIs(1))
        << text << (result.problem ? result.problem->expected : "");
    EXPECT_EQ(result.lines[0].record, expected) << text;
  }
}

TEST(LogReader, AnyPiecesGiveTheSameRecords) {
  std::string text("\xEF\xBB\xBF");
  for (int i = 1; i < 20; ++i) {
    text += to_line(record_of("1B7", i, LogRecord::Event::enter)) + (i % 2 == 0 ? "\r\n" : "\n");
    if (i % 5 == 0) text += " \t\r\n\n";
  }
  const Read whole = read(text);
  ASSERT_THAT(whole.lines, SizeIs(19));
  for (std::size_t piece = 1; piece < 60; ++piece) {
    const Read result = read(text, piece);
    ASSERT_THAT(result.lines, SizeIs(19)) << piece;
    for (std::size_t i = 0; i < 19; ++i) {
      EXPECT_EQ(result.lines[i].record, whole.lines[i].record);
      EXPECT_EQ(result.lines[i].line, whole.lines[i].line);
    }
  }
}

TEST(LogReader, SaysWhereALineIsWrong) {
  struct Case {
    std::string line;
    std::size_t column;
    std::string expected;
  };
  using namespace std::string_literals;
  const std::vector<Case> cases{
      {"seq=2 mb=5 phase=F event=enter", 31, "also stage"},
      {"seq=2 mb=-5 stage=2 phase=F event=enter", 10, "mb to be a whole number"},
      {"seq=2 mb= stage=2 phase=F event=enter", 10, "mb to be a whole number"},
      {"seq= mb=5 stage=2 phase=F event=enter", 5, "seq to be a whole number"},
      {"seq=2 mb=5 stage=2 phase=F event=enter step=", 45, "step to be a whole number"},
      {"seq=2 mb=5 stage=2 phase=F event=exits", 34, "enter or exit"},
      {"seq=2 mb=5.0 stage=2 phase=F event=enter", 10, "mb to be a whole number"},
      {"seq=2 mb=0x5 stage=2 phase=F event=enter", 10, "mb to be a whole number"},
      {"seq=2 mb=99999999999 stage=2 phase=F event=enter", 10, "from 0 to 2147483647"},
      {"seq=2 mb=2147483647 stage=2 phase=F event=enter", 10, "from 0 to 2147483647"},
      {"seq=99999999999999999999 mb=5 stage=2 phase=F event=enter", 5, "at most 64 bits"},
      {"seq=18446744073709551617 mb=5 stage=2 phase=F event=enter", 5, "at most 64 bits"},
      {"seq=2 mb=5 stage=2 phase=X event=enter", 26, "F, B, I or W"},
      {"seq=2 mb=5 stage=2 phase=Fwd event=enter", 26, "F, B, I or W"},
      {"seq=2 mb=5 stage=2 phase=F event=begin", 34, "enter or exit"},
      {"seq=2 mb=5 stage=2 phase=F event=enter mb=6", 43, "mb only once"},
      {"seq=2 mb=5 stage=2 phase=F event=enter and more", 40, "key=value"},
      {"seq=2 mb=5\0 stage=2 phase=F event=enter"s, 10, "mb to be a whole number"},
      {"seq=2 mb=5 stage=2 phase=F event=enter \0\1\2=5"s, 40, "control"},
      {"2026-11-30 07:00:00 started", 1, "key=value"},
  };
  for (const Case& wrong : cases) {
    // Much behind it, so that the line is first tried as one that we wrote.
    std::string behind;
    for (int i = 0; i < 5; ++i) behind += good_line;
    const Read result = read(std::string(good_line) + wrong.line + "\n" + behind);
    EXPECT_THAT(result.lines, SizeIs(1)) << wrong.line;
    ASSERT_TRUE(result.problem) << wrong.line;
    EXPECT_EQ(result.problem->line, 2);
    EXPECT_EQ(result.problem->column, wrong.column) << wrong.line;
    EXPECT_THAT(result.problem->expected, HasSubstr(wrong.expected)) << wrong.line;
  }
}

TEST(LogReader, SaysWhereJsonAndCsvAreWrong) {
  const std::string json = "{\"seq\":1,\"mb\":5,\"stage\":2,\"phase\":\"F\",\"event\":\"enter\"}\n";
  for (const std::string_view line :
       {"{\"seq\":1,\"mb\":5,\"stage\":2,\"phase\":\"F\"}", "{\"seq\":1 \"mb\":5}",
        "{\"seq\":\"1\"}", "{\"mb\":5,\"mb\":5}", "{\"mb\":1e3}", "{\"x\":[1,2}", "{} {}", "seq=1",
        "[]", "{\"x\":}", "{\"x\":\"\\", "{\"phase\":F}"}) {
    const Read result = read(json + std::string(line) + "\n");
    ASSERT_TRUE(result.problem) << line;
    EXPECT_EQ(result.problem->line, 2) << line;
  }
  for (const std::string_view row : {"1,5,2,F", "1,5,2,F,enter,9", "1,5,2,\"F,enter",
                                     "x,5,2,F,enter", ",,,,", "1,5,2,F\"F\",enter"}) {
    const Read result = read("seq,mb,stage,phase,event\n" + std::string(row) + "\n");
    ASSERT_TRUE(result.problem) << row;
    EXPECT_EQ(result.problem->line, 2) << row;
  }
  EXPECT_EQ(read("seq,mb,stage,phase\n1,2,3,F\n").problem->line, 1);
  EXPECT_EQ(read("seq,mb,stage,stage,phase,event\n").problem->line, 1);
}

TEST(LogReader, WhatIsNoLogSaysWhatALogIs) {
  const std::string noise(
      "\x7F"
      "ELF\x02\x01\x01\0\0\0\0",
      11);
  std::vector<std::string> texts{noise, "hello", "[{\"ph\":\"X\"}]"};
  texts.emplace_back(std::size_t{1} << 20, 'x');
  texts.emplace_back(1, '\0');
  for (std::string& text : texts) {
    text += '\n';
    const Read result = read(text);
    ASSERT_TRUE(result.problem);
    EXPECT_EQ(result.problem->line, 1);
    EXPECT_THAT(result.problem->expected, HasSubstr("seq=0001"));
    EXPECT_LT(result.problem->found.size(), 200U);
  }
}

TEST(LogReader, LongLines) {
  const std::string megabyte(1 << 20, 'x');
  const Read result =
      read("note=" + megabyte + ' ' + std::string(good_line) + std::string(good_line), 1000);
  EXPECT_FALSE(result.problem);
  EXPECT_THAT(result.lines, SizeIs(2));
  const Read endless = read(std::string(good_line) + std::string(17 << 20, 'x'), 1 << 16);
  ASSERT_TRUE(endless.problem);
  EXPECT_EQ(endless.problem->line, 2);
}

TEST(LogReader, ALogCutAtAnyByteIsNoBrokenLog) {
  std::string text(good_line);
  text += "seq=2 mb=5 stage=2 phase=F event=exit\n";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const Read result = read(std::string_view(text).substr(0, size));
    EXPECT_FALSE(result.problem) << size;
    if (result.lines.size() == 2) continue;
    EXPECT_EQ(result.cut_short,
              size > 0 && size + 1 != good_line.size() && size != good_line.size())
        << size;
  }
  EXPECT_FALSE(read(text.substr(0, text.size() - 1)).lines.back().whole);
}

TEST(LogReader, JsonAndCsvCutAtAnyByteAreNoBrokenLogsEither) {
  const std::string json =
      "{\"seq\":1,\"mb\":5,\"stage\":2,\"phase\":\"F\",\"event\":\"enter\",\"x\":[\"}\"]}\n";
  const std::string csv = "seq,mb,stage,phase,event,note\n1,5,2,F,enter,\"a, b\"\n";
  for (const std::string& text : {json + json, csv}) {
    for (std::size_t size = 0; size <= text.size(); ++size) {
      const Read result = read(std::string_view(text).substr(0, size));
      EXPECT_FALSE(result.problem) << text.substr(0, size);
      for (const LogLine& line : result.lines) EXPECT_EQ(to_string(line.record.action), "2F5");
    }
  }
}

TEST(LogReader, OneByteOfNoiseIsARecordOrAProblemWithItsLine) {
  std::string text;
  for (int i = 0; i < 6; ++i) text += to_line(record_of("2F5", i, LogRecord::Event::exit)) + '\n';
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char noise : {'\0', '\n', '\r', ' ', '9', '=', '"', '\xFF'}) {
      std::string changed = text;
      changed[at] = noise;
      const Read result = read(changed);
      const Read pieces = read(changed, 11);
      EXPECT_EQ(result.lines.size(), pieces.lines.size()) << at;
      EXPECT_EQ(result.problem.has_value(), pieces.problem.has_value()) << at;
      if (!result.problem) continue;
      EXPECT_GE(result.problem->line, 1);
      EXPECT_LE(result.problem->line, 7);
      EXPECT_EQ(result.problem->line, pieces.problem->line) << at;
      EXPECT_EQ(result.problem->column, pieces.problem->column) << at;
    }
  }
}

TEST(LogReader, LinesInWordsOfTheirOwn) {
  LogReader reader(0, [](std::string_view line, LogLine& out) {
    if (!line.starts_with("fwd ")) return false;
    out.record = record_of(line.substr(4), 0, LogRecord::Event::enter);
    return true;
  });
  std::vector<LogLine> lines;
  reader.feed("hello\nfwd 1F2\n\nbye\n", lines);
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0].line, 2);
  EXPECT_FALSE(lines[0].numbered);
  EXPECT_FALSE(reader.problem());
}

TEST(LogReader, NothingAtAll) {
  EXPECT_THAT(read("").lines, IsEmpty());
  EXPECT_FALSE(read("\r\n\n  \n").problem);
}

}  // namespace
}  // namespace sluice
