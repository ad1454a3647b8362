#include <sluice/log_check.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/plan.hpp>

#include "log_builder.hpp"
#include "log_checking.hpp"

namespace sluice {
namespace {

using test::check;
using test::check_text;
using test::depth;
using test::described;
using test::is_forward;
using test::LogBuilder;
using test::of_stage;
using test::shape;
using testing::HasSubstr;

constexpr std::array<ScheduleName, 10> every_schedule{
    ScheduleName::drain,      ScheduleName::one_f_one_b, ScheduleName::gpipe,
    ScheduleName::eager_1f1b, ScheduleName::interleaved, ScheduleName::looped_bfs,
    ScheduleName::zb_h1,      ScheduleName::zb_h2,       ScheduleName::zb_v,
    ScheduleName::dualpipe_v};

TEST(LogCheck, TheLogOfEverySchedulePassesAndIsRecognised) {
  for (const ScheduleName name : every_schedule) {
    const PlanConfig config = shape(4, 8, name);
    for (const bool with_plan : {true, false}) {
      const LogReport report =
          check(LogBuilder(config), with_plan ? std::optional(config) : std::nullopt);
      EXPECT_EQ(report.verdict, Verdict::pass) << to_string(name) << described(report);
      if (with_plan) continue;  // nothing to guess
      ASSERT_TRUE(report.inference);
      EXPECT_EQ(report.inference->stages, 4);
      EXPECT_EQ(report.inference->microbatches, 8);
      EXPECT_TRUE(std::any_of(report.inference->schedules.begin(),
                              report.inference->schedules.end(),
                              [name](const Guess& guess) { return guess.schedule == name; }))
          << to_string(name) << described(report);
    }
  }
}

LogBuilder lines_of(std::initializer_list<std::string_view> names) {
  std::vector<LogRecord> records;
  for (const std::string_view name : names) {
    LogRecord& record = records.emplace_back();
    record.action = *parse_action(name.substr(0, name.find(' ')));
    record.event = name.ends_with("enter") ? LogRecord::Event::enter : LogRecord::Event::exit;
  }
  return LogBuilder(std::move(records)).renumber();
}

TEST(LogCheck, PairsByStageMicrobatchAndPhaseNeverByNesting) {
  const LogReport report = check(lines_of({"0F0 enter", "0F1 enter", "0F0 exit", "0F1 exit"}));
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().rule, "rank-overlap");
  EXPECT_EQ(report.findings.front().seq, 2);
}

TEST(LogCheck, LinesInAnyOrderOnlyTheReversedPairIsBlamed) {
  LogBuilder log = LogBuilder(shape(4, 8)).swap("1F5 enter", "1F5 exit");
  const std::int64_t seq = log.seq("1F5 exit");
  std::reverse(log.records().begin(), log.records().end());
  std::rotate(log.records().begin(), log.records().begin() + 37, log.records().end());
  const LogReport report = check(log, shape(4, 8));
  ASSERT_EQ(report.findings.size(), 1U) << described(report);
  EXPECT_EQ(report.findings.front().rule, "exit-without-enter");
  EXPECT_EQ(report.findings.front().seq, seq);
  EXPECT_EQ(report.findings.front().line, static_cast<std::int64_t>(log.at("1F5 exit")) + 1);
}

TEST(LogCheck, AGapIsTwoRecordsLostAndNoViolation) {
  LogBuilder log(shape(2, 4));
  log.lose_if([](const LogRecord& record) { return record.seq == 12 || record.seq == 13; });
  const LogReport report = check(log);
  EXPECT_EQ(report.verdict, Verdict::incomplete) << described(report);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings.front().expected, "seq 12 to 13");
  EXPECT_THAT(report.findings.front().found, HasSubstr("2 records"));
}

TEST(LogCheck, AStuckLogNamesTheStageThatIsBehind) {
  const PlanConfig gpipe = shape(4, 8, ScheduleName::gpipe);
  const LogReport behind = check(LogBuilder(gpipe).drop_if([](const LogRecord& r) {
    return !is_forward(r) || r.action.mb.value > (of_stage(r, 3) ? 2 : 5);
  }),
                                 gpipe);
  EXPECT_THAT(behind.findings.front().message, HasSubstr("stage 3: 3F3"));
  EXPECT_THAT(behind.findings.front().message, HasSubstr("stage 3 is behind"));
}

TEST(LogCheck, WhatNeverExitsIsListedByStageWithItsName) {
  const PlanConfig config = shape(4, 8, ScheduleName::gpipe);
  const LogBuilder whole(config);
  // Every stage has gone one backward further than the one before; two are in the next.
  const auto log_of = [&](std::initializer_list<std::string_view> order) {
    LogBuilder log = LogBuilder(config).drop_if([](const LogRecord& r) {
      return !is_forward(r) && r.action.mb.value > r.action.stage.value;
    });
    for (const std::string_view name : order) {
      log.records().push_back(whole.records()[whole.at(name)]);
    }
    return log.renumber();
  };
  for (const LogBuilder& log :
       {log_of({"3B4 enter", "1B2 enter"}), log_of({"1B2 enter", "3B4 enter"})}) {
    const LogReport report = check(log, config);
    EXPECT_EQ(report.verdict, Verdict::truncated) << described(report);
    const std::string& found = report.findings.front().found;
    EXPECT_NE(found.find("stage 1: 1B2 exit"), std::string::npos) << found;
    EXPECT_LT(found.find("stage 1: 1B2 exit"), found.find("stage 3: 3B4 exit")) << found;
  }
}

TEST(LogCheck, AtEqualTimesTheNumbersAloneSayWhatCameFirst) {
  const PlanConfig config = shape(2, 4);
  LogBuilder log(config);
  // Records 8 and 9 at one moment, in either order in the file.
  log.change_all([](LogRecord& r) { r.t_ns = r.seq == 9 ? 800 : 100 * r.seq; });
  for (int turn = 0; turn < 2; ++turn) {
    for (const auto& plan : {std::optional(config), std::optional<PlanConfig>()}) {
      const LogReport report = check(log, plan);
      EXPECT_EQ(report.verdict, Verdict::pass) << described(report);
      EXPECT_TRUE(report.findings.empty());
    }
    std::swap(log.records()[7], log.records()[8]);
  }
}

TEST(LogCheck, EveryViolationHasTheLastGoodRecordAndTheExpectedNextOne) {
  LogBuilder log = LogBuilder(shape(4, 8)).repeat("2F3 enter", "2F4 enter");
  const LogReport report = check(log, shape(4, 8));
  ASSERT_EQ(report.findings.size(), 1U);
  const LogFinding& finding = report.findings.front();
  EXPECT_THAT(finding.last_good, HasSubstr("seq "));
  EXPECT_THAT(finding.message, HasSubstr("last good record of stage 2: " + finding.last_good));
  EXPECT_EQ(finding.expected, "2F4 enter");
}

TEST(LogCheck, StageLogsInterleavedAnyhowPass) {
  const PlanConfig config = shape(4, 4, ScheduleName::gpipe);
  LogBuilder log(config);
  std::stable_sort(log.records().begin(), log.records().end(), [](const auto& a, const auto& b) {
    return a.action.stage.value % 3 < b.action.stage.value % 3;
  });
  const LogReport report = check(log, config);
  EXPECT_EQ(report.verdict, Verdict::pass);
  EXPECT_EQ(report.records, 64);
}

TEST(LogCheck, FilesOfStagesByWhatTheyContain) {
  const PlanConfig config = shape(4, 8);
  LogCheck check(derive_plan(config));
  const LogBuilder log(config);
  std::vector<std::string> texts(4);
  for (const LogRecord& record : log.records()) {
    texts[record.action.stage.index()] += to_line(record) + '\n';
  }
  std::vector<int> logs;
  for (const char* name : {"host-b.17", "host-a.3", "x", "y"}) logs.push_back(check.add(name));
  for (const std::size_t i : {2U, 0U, 3U, 1U}) check.feed(logs[i], texts[i]);
  const LogReport report = check.finish();
  EXPECT_EQ(report.verdict, Verdict::pass) << described(report);
  EXPECT_EQ(report.records, 128);
}

TEST(LogCheck, CutAtAnyByteIsTruncatedOrPass) {
  const PlanConfig config = shape(2, 3);
  const std::string text =
      LogBuilder(config)
          .change_all([](LogRecord& r) { r.rank = RankId(r.action.stage.value); })
          .text();
  for (const auto& plan : {std::optional(config), std::optional<PlanConfig>()}) {
    for (std::size_t size = 0; size < text.size(); ++size) {
      const LogReport report = check_text(std::string_view(text).substr(0, size), plan);
      // What is cut off the last line may be only what no record needs.
      const bool all =
          report.records == 24 && size + std::string_view(" rank=0\n").size() >= text.size();
      EXPECT_TRUE(report.verdict == Verdict::truncated || (all && report.verdict == Verdict::pass))
          << size << described(report);
    }
  }
}

TEST(LogCheck, AHundredConsequencesAreOneFinding) {
  const LogReport report = check(LogBuilder(depth(shape(8, 64), 20)), shape(8, 64));
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_GT(report.findings.front().count, 50);
}

TEST(LogCheck, WhatCannotBeReadIsRejectedWithItsLine) {
  const LogReport report =
      check_text(LogBuilder(shape(2, 2)).text() + "seq=17 mb=1 phase=F event=exit\n");
  EXPECT_EQ(report.verdict, Verdict::rejected);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings.front().line, 17);
  EXPECT_THAT(report.findings.front().message, HasSubstr("run.log:17:31: expected also stage"));
}

TEST(LogCheck, ALogNumberedFromZeroHasThatFindingAlone) {
  LogBuilder log(shape(4, 8));
  for (LogRecord& record : log.records()) --record.seq;
  const LogReport report = check(log, shape(4, 8));
  ASSERT_EQ(report.findings.size(), 1U) << described(report);
  EXPECT_EQ(report.findings.front().rule, "seq-order");
  EXPECT_THAT(report.findings.front().message, HasSubstr("seq starts at 1"));
  EXPECT_EQ(report.records, 4 * 4 * 8);
}

TEST(LogCheck, RecordsBeyondTheWindowAreGivenUp) {
  const PlanConfig config = shape(2, 8);
  LogBuilder log(config);
  std::rotate(log.records().begin(), log.records().begin() + 1, log.records().end());
  LogCheck small(derive_plan(config), 10);
  const int number = small.add("run.log");
  small.feed(number, log.text());
  const LogReport report = small.finish();
  EXPECT_EQ(report.findings.front().rule, "seq-order") << described(report);
}

/// A log a stage, each with its own numbers (or none) and a clock that is `skew` off.
std::vector<std::string> stage_logs(const LogBuilder& log, bool numbered, std::int64_t skew) {
  std::vector<std::string> texts;
  std::vector<std::int64_t> seqs;
  std::int64_t now = 0;
  for (LogRecord record : log.records()) {
    const std::size_t stage = record.action.stage.index();
    texts.resize(std::max(texts.size(), stage + 1));
    seqs.resize(std::max(seqs.size(), stage + 1));
    record.seq = ++seqs[stage];
    record.t_ns = ++now + static_cast<std::int64_t>(stage) * skew;
    const std::string line = to_line(record);
    texts[stage] += (numbered ? line : line.substr(line.find(' ') + 1)) + '\n';
  }
  return texts;
}

LogReport check_all(const std::vector<std::string>& texts,
                    const std::optional<PlanConfig>& config) {
  LogCheck check(config ? std::optional(derive_plan(*config)) : std::nullopt);
  for (std::size_t i = 0; i < texts.size(); ++i) check.add(std::to_string(i) + ".log");
  for (std::size_t i = 0; i < texts.size(); ++i) check.feed(static_cast<int>(i), texts[i]);
  return check.finish();
}

TEST(LogCheck, ClocksThatAreApartAreNotCompared) {
  const PlanConfig config = shape(4, 8);
  for (const std::int64_t skew :
       {std::int64_t{0}, std::int64_t{11'560'000'000}, -std::int64_t{11'560'000'000}}) {
    for (const bool numbered : {true, false}) {
      for (const auto& plan : {std::optional(config), std::optional<PlanConfig>()}) {
        const auto texts = stage_logs(LogBuilder(config), numbered, skew);
        const LogReport report = check_all(texts, plan);
        EXPECT_EQ(report.verdict, Verdict::pass) << skew << numbered << described(report);
        std::string together;
        for (const std::string& text : texts) together += text;
        if (numbered) continue;
        EXPECT_EQ(check_text(together, plan).verdict, Verdict::pass) << skew;
      }
    }
  }
}

TEST(LogCheck, WhatIsWrongOnAStageIsWrongUnderAnyClock) {
  const PlanConfig config = shape(4, 8);
  struct Case {
    LogBuilder log;
    std::string rule;
  };
  const std::vector<Case> cases{
      {LogBuilder(config).drop_action("2F3"), "mb-skipped"},
      {LogBuilder(config).swap("2F3 enter", "2F3 exit"), "exit-without-enter"},
      {LogBuilder(config).repeat("1F2 enter", "1F3 enter"), "mb-repeated"},
      {LogBuilder(depth(config, 5)), "over-credit"},
  };
  for (const Case& each : cases) {
    for (const bool numbered : {true, false}) {
      const LogReport report = check_all(stage_logs(each.log, numbered, 11'560'000'000), config);
      ASSERT_EQ(report.findings.size(), 1U) << each.rule << numbered << described(report);
      EXPECT_EQ(report.findings.front().rule, each.rule) << described(report);
    }
  }
}

TEST(LogCheck, ACycleOfCausesIsNoOrder) {
  // Stage 0 claims to have gone backward before it went forward with the next, stage 1 the opposite.
  const LogReport report = check_all(
      {"stage=0 mb=0 phase=F event=enter\nstage=0 mb=0 phase=F event=exit\nstage=0 mb=0 phase=B "
       "event=enter\nstage=0 mb=0 phase=B event=exit\nstage=0 mb=1 phase=F event=enter\nstage=0 "
       "mb=1 "
       "phase=F event=exit\nstage=0 mb=1 phase=B event=enter\nstage=0 mb=1 phase=B event=exit\n",
       "stage=1 mb=0 phase=F event=enter\nstage=1 mb=0 phase=F event=exit\nstage=1 mb=1 phase=F "
       "event=enter\nstage=1 mb=1 phase=F event=exit\nstage=1 mb=0 phase=B event=enter\nstage=1 "
       "mb=0 "
       "phase=B event=exit\nstage=1 mb=1 phase=B event=enter\nstage=1 mb=1 phase=B event=exit\n"},
      {});
  EXPECT_EQ(report.verdict, Verdict::violation) << described(report);
}

TEST(LogCheck, OneLogWithoutNumbersIsInTheOrderOfItsLines) {
  std::string text;
  const LogBuilder log = LogBuilder(shape(4, 8)).swap("1F3 exit", "2F3 enter");
  for (const LogRecord& record : log.records()) {
    const std::string line = to_line(record);
    text += line.substr(line.find(' ') + 1) + '\n';
  }
  EXPECT_EQ(check_text(text).findings.front().rule, "forward-order");
  EXPECT_EQ(check_text(text + LogBuilder(shape(1, 1)).text()).verdict, Verdict::rejected);
  const LogReport other = check_text(LogBuilder(shape(1, 1)).text() + text);
  EXPECT_EQ(other.verdict, Verdict::rejected);
  EXPECT_EQ(other.findings.front().line, 5);
}

}  // namespace
}  // namespace sluice
