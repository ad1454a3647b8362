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

using test::adaptive;
using test::check;
using test::check_text;
using test::depth;
using test::described;
using test::LogBuilder;
using test::shape;
using testing::HasSubstr;

constexpr std::array<ScheduleName, 10> every_schedule{
    ScheduleName::drain,      ScheduleName::one_f_one_b, ScheduleName::gpipe,
    ScheduleName::eager_1f1b, ScheduleName::interleaved, ScheduleName::looped_bfs,
    ScheduleName::zb_h1,      ScheduleName::zb_h2,       ScheduleName::zb_v,
    ScheduleName::dualpipe_v};

/// One mistake planted in a log, and what must come of it: this verdict, and this one finding.
struct Planted {
  std::string name;
  LogBuilder log;
  std::optional<PlanConfig> config;  // what it is held against
  Verdict verdict = Verdict::pass;
  std::string rule;      // empty: no finding
  std::string likely;    // the key
  std::int64_t seq = 0;  // 0: not looked at
};

std::ostream& operator<<(std::ostream& out, const Planted& planted) { return out << planted.name; }

bool of_stage(const LogRecord& record, int stage) { return record.action.stage == StageId(stage); }
bool of_mb(const LogRecord& record, int mb) { return record.action.mb == MicrobatchId(mb); }
bool is_forward(const LogRecord& record) { return record.action.phase == Phase::forward; }

/// Every action finds what it takes, yet a stage's own order is what `order` makes of it: a run of a
/// loop that is not the plan's. The actions of `from`, by a key that replaces the time.
template <class KeyOf>
LogBuilder reordered(const PlanConfig& from, KeyOf key_of) {
  std::vector<TimedAction> actions = derive_plan(from).timeline.actions;
  std::stable_sort(actions.begin(), actions.end(), [&](const auto& a, const auto& b) {
    return key_of(a.action) < key_of(b.action);
  });
  std::vector<LogRecord> records;
  for (const TimedAction& timed : actions) {
    for (const auto event : {LogRecord::Event::enter, LogRecord::Event::exit}) {
      LogRecord& record = records.emplace_back();
      record.action = timed.action;
      record.event = event;
    }
  }
  return LogBuilder(std::move(records)).renumber();
}

/// A gate tested on every turn: all go forward, and the backwards stop when fewer than the gate
/// asks for are held.
LogBuilder gate_never_latched(int stages, int microbatches, int drained) {
  return LogBuilder(shape(stages, microbatches, ScheduleName::gpipe))
      .drop_if([=](const auto& record) {
        return !is_forward(record) && record.action.mb.value >= drained;
      });
}

std::vector<Planted> planted() {
  const PlanConfig s4m8 = shape(4, 8);
  const PlanConfig s2m4 = shape(2, 4);
  const PlanConfig s16m64 = shape(16, 64);
  const auto none = std::optional<PlanConfig>();
  using enum Verdict;
  std::vector<Planted> rows;
  const auto plant = [&rows](std::string name, LogBuilder log, std::optional<PlanConfig> config,
                             Verdict verdict, std::string rule = "", std::string likely = "",
                             std::int64_t seq = 0) {
    rows.push_back({std::move(name), std::move(log), std::move(config), verdict, std::move(rule),
                    std::move(likely), seq});
  };
  const LogBuilder good(s4m8);
  const LogBuilder large(s16m64);

  // Nothing wrong.
  plant("valid", good, s4m8, pass);
  plant("valid, large", large, s16m64, pass);
  plant("valid, fewer microbatches than stages", LogBuilder(shape(8, 1)), shape(8, 1), pass);
  plant("valid, fill and drain", LogBuilder(shape(4, 4, ScheduleName::gpipe)),
        shape(4, 4, ScheduleName::gpipe), pass);
  plant("valid, adaptive may run another order", LogBuilder(depth(s4m8, 1)), adaptive(s4m8), pass);
  plant("valid, several steps",
        LogBuilder(s2m4).step(0).append(LogBuilder(s2m4).step(1)).renumber(), s2m4, pass);
  plant("valid, against itself", large, none, pass);
  plant("valid, equal times", LogBuilder(s4m8).change_all([](LogRecord& r) { r.t_ns = 7; }), s4m8,
        pass);

  // Numbers.
  plant("a seq twice", LogBuilder(s4m8).change("1F3 enter", [&](LogRecord& r) { r.seq -= 1; }),
        s4m8, violation, "seq-order", "", good.seq("1F3 enter") - 1);
  plant("a record lost", LogBuilder(s4m8).lose("2F4 enter"), s4m8, incomplete, "seq-gap");
  plant("two records lost", LogBuilder(s4m8).lose("2F4 enter").lose("2F4 exit"), s4m8, incomplete,
        "seq-gap");
  plant("an exit lost, without a plan", LogBuilder(s4m8).lose("2F4 exit"), none, incomplete,
        "seq-gap");
  plant("the last exit of a stage lost", LogBuilder(s4m8).lose("3B7 exit"), s4m8, incomplete,
        "seq-gap");
  plant("the beginning lost", LogBuilder(s4m8).lose_if([](const auto& r) { return r.seq <= 20; }),
        s4m8, incomplete, "lost-records");
  plant("one stage's file missing",
        LogBuilder(s4m8).lose_if([](const auto& r) { return of_stage(r, 2); }), s4m8, incomplete,
        "lost-records");
  plant("a tenth of a large log lost",
        LogBuilder(s16m64).lose_if([](const auto& r) { return r.seq % 10 == 3; }), s16m64,
        incomplete, "seq-gap");
  plant("two runs in one log", LogBuilder(s2m4).append(LogBuilder(s2m4)), s2m4, violation,
        "seq-order", "", 1);
  plant("microbatches start again each step", LogBuilder(s2m4).append(LogBuilder(s2m4)).renumber(),
        s2m4, violation, "mb-repeated", "step", 33);
  plant("microbatches start again each step, without a plan",
        LogBuilder(s2m4).append(LogBuilder(s2m4)).append(LogBuilder(s2m4)).renumber(), none,
        violation, "mb-repeated", "step", 33);

  // Where it stops.
  plant("cut in the middle", LogBuilder(s4m8).cut_after("2B1 enter"), s4m8, truncated, "truncated");
  plant("cut in the middle, without a plan", LogBuilder(s4m8).cut_after("2B1 enter"), none,
        truncated, "truncated");
  plant("cut before the last record", LogBuilder(s4m8).cut_after("0B7 enter"), s4m8, truncated,
        "truncated");
  plant("forward is done and backward is not: not finished, not lost",
        LogBuilder(s4m8).cut_after("3F2 exit"), s4m8, truncated, "truncated");
  plant("the last stage is behind",
        LogBuilder(shape(4, 8, ScheduleName::gpipe)).drop_if([](const auto& r) {
          return !is_forward(r) || r.action.mb.value > (of_stage(r, 3) ? 2 : 5);
        }),
        shape(4, 8, ScheduleName::gpipe), truncated, "truncated");
  plant("gate tested on every turn", gate_never_latched(4, 8, 6), shape(4, 8, ScheduleName::gpipe),
        truncated, "truncated", "drain_depth");
  plant("gate waits for more than come", gate_never_latched(4, 3, 0), none, truncated, "truncated",
        "drain_depth");
  plant("a step that failed, and the next one",
        LogBuilder(s2m4).cut_after("1B1 enter").step(0).append(LogBuilder(s2m4).step(1)).renumber(),
        s2m4, truncated, "truncated");

  // Ids.
  plant("more stages than planned", LogBuilder(shape(6, 8)), s4m8, violation, "unknown-id",
        "stages", LogBuilder(shape(6, 8)).seq("4F0 enter"));
  plant("fewer stages than planned", LogBuilder(shape(3, 8)), s4m8, violation, "stage-silent",
        "stages", LogBuilder(shape(3, 8)).seq("2B0 enter"));
  plant("more microbatches than planned", LogBuilder(shape(4, 9)), s4m8, violation, "unknown-id",
        "microbatches", LogBuilder(shape(4, 9)).seq("0F8 enter"));
  plant("fewer microbatches than planned", LogBuilder(shape(4, 6)), s4m8, violation, "plan-order",
        "microbatches");
  plant("a ragged last microbatch dropped", LogBuilder(shape(4, 7)), s4m8, violation, "plan-order",
        "microbatches");
  plant("a stage on another rank", LogBuilder(s2m4).change_all([](LogRecord& r) {
    r.rank = RankId(1 - r.action.stage.value);
  }),
        s2m4, violation, "unknown-id", "devices", 1);
  plant("a stage that changes its rank",
        LogBuilder(s2m4)
            .change_all([](LogRecord& r) { r.rank = RankId(r.action.stage.value); })
            .change("1F3 enter", [](LogRecord& r) { r.rank = RankId(0); }),
        none, violation, "unknown-id", "devices", LogBuilder(s2m4).seq("1F3 enter"));
  plant("a device missing: the last stage never runs", LogBuilder(s4m8).drop_if([](const auto& r) {
    return of_stage(r, 3) || !is_forward(r) || r.action.mb.value >= 4 - r.action.stage.value;
  }),
        s4m8, violation, "stage-silent", "devices");
  plant("a stage in the middle writes nothing",
        LogBuilder(s4m8).drop_if([](const auto& r) { return of_stage(r, 1); }), s4m8, violation,
        "stage-silent", "devices");
  plant("a stage in the middle writes nothing, without a plan",
        LogBuilder(s4m8).drop_if([](const auto& r) { return of_stage(r, 1); }), none, violation,
        "stage-silent", "devices");
  plant("first seen in backward",
        LogBuilder(s4m8).drop_if([](const auto& r) { return of_stage(r, 2) && is_forward(r); }),
        s4m8, violation, "first-seen-backward", "devices");

  // Microbatches.
  plant("skipped everywhere", LogBuilder(s4m8).drop_if([](const auto& r) { return of_mb(r, 3); }),
        s4m8, violation, "mb-skipped", "microbatches");
  plant("skipped everywhere, without a plan",
        LogBuilder(s4m8).drop_if([](const auto& r) { return of_mb(r, 3); }), none, violation,
        "mb-skipped", "microbatches");
  plant("skipped by one stage",
        LogBuilder(s4m8).drop_if([](const auto& r) { return of_mb(r, 3) && of_stage(r, 2); }), s4m8,
        violation, "mb-skipped", "microbatches");
  plant("skipped in backward only",
        LogBuilder(s4m8).drop_if([](const auto& r) { return of_mb(r, 3) && !is_forward(r); }), s4m8,
        violation, "mb-skipped", "microbatches");
  plant("skipped, large", LogBuilder(s16m64).drop_if([](const auto& r) { return of_mb(r, 40); }),
        s16m64, violation, "mb-skipped", "microbatches");
  plant("an enter repeated", LogBuilder(s4m8).repeat("1F2 enter", "1F3 enter"), s4m8, violation,
        "mb-repeated", "microbatches", good.seq("1F3 enter"));
  plant("an exit repeated", LogBuilder(s4m8).repeat("1F2 exit", "1F3 enter"), s4m8, violation,
        "mb-repeated", "microbatches", good.seq("1F3 enter"));
  plant("a finished microbatch again", LogBuilder(s4m8).repeat("0F0 enter", "0B7 enter"), s4m8,
        violation, "mb-repeated", "microbatches", good.seq("0B7 enter"));
  plant("another number twice", LogBuilder(s4m8).change_all([](LogRecord& r) {
    if (of_mb(r, 5)) r.action.mb = MicrobatchId(4);
  }),
        none, violation, "mb-repeated", "microbatches");
  plant("two forwards out of order",
        LogBuilder(shape(4, 8, ScheduleName::gpipe)).move_action_before("0F4", "0F3 enter"), none,
        violation, "mb-order", "schedule",
        LogBuilder(shape(4, 8, ScheduleName::gpipe)).seq("0F3 enter"));
  plant("backward descends where the plan ascends",
        LogBuilder(shape(4, 8, ScheduleName::looped_bfs)).change_all([](LogRecord&) {}), none,
        pass);

  // Enter and exit.
  plant("an exit before its enter", LogBuilder(s4m8).swap("2F3 enter", "2F3 exit"), s4m8, violation,
        "exit-without-enter", "", good.seq("2F3 enter"));
  plant("an exit without an enter", LogBuilder(s4m8).drop("2F3 enter"), s4m8, violation,
        "exit-without-enter", "", good.seq("2F3 exit") - 1);
  plant("a backward's exit without an enter", LogBuilder(s4m8).drop("1B3 enter"), none, violation,
        "exit-without-enter");
  plant("an action that never exits", LogBuilder(s4m8).drop("2F3 exit"), s4m8, violation,
        "never-exits");
  plant("a backward that never exits", LogBuilder(s4m8).drop("2B3 exit"), none, violation,
        "never-exits");
  plant("never exits on the last stage", LogBuilder(s16m64).drop("15F20 exit"), s16m64, violation,
        "never-exits");
  plant("two at once on a stage",
        LogBuilder(shape(1, 4, ScheduleName::gpipe)).swap("0F1 exit", "0F2 enter"), none, violation,
        "rank-overlap", "devices");
  plant("nested forwards",
        LogBuilder(shape(2, 4, ScheduleName::gpipe)).swap("0F0 exit", "0F1 enter"), none, violation,
        "rank-overlap", "devices", 2);
  plant("two stages of one rank at once",
        LogBuilder(shape(4, 4, ScheduleName::interleaved))
            .change_all([](LogRecord& r) { r.rank = RankId(r.action.stage.value % 2); })
            .move_before("2F0 enter", "0F1 exit"),
        shape(4, 4, ScheduleName::interleaved), violation, "forward-order", "stages");

  // Directions.
  plant("forward reaches a stage too early", LogBuilder(s4m8).swap("1F3 exit", "2F3 enter"), s4m8,
        violation, "forward-order", "stages");
  plant("stages walked downwards in forward",
        reordered(shape(4, 4, ScheduleName::gpipe),
                  [](const Action& a) {
                    return std::make_tuple(
                        a.phase, a.mb.value,
                        a.phase == Phase::forward ? -a.stage.value : -a.stage.value);
                  }),
        none, violation, "forward-order", "stages", 1);
  plant("stages walked upwards in backward",
        reordered(
            shape(4, 4, ScheduleName::gpipe),
            [](const Action& a) { return std::make_tuple(a.phase, a.mb.value, a.stage.value); }),
        none, violation, "backward-order", "stages", 33);
  plant("stage 0 goes backward right after its forwards",
        reordered(shape(4, 4, ScheduleName::gpipe),
                  [](const Action& a) {
                    return std::make_tuple(a.stage.value, static_cast<int>(a.phase), a.mb.value);
                  }),
        shape(4, 4, ScheduleName::gpipe), violation, "backward-order", "stages", 9);
  plant("backward before its activation", LogBuilder(s4m8).move_action_before("3B3", "3F3 enter"),
        s4m8, violation, "backward-before-forward", "drain_depth", good.seq("3F3 enter"));
  plant("weight gradient before input gradient",
        LogBuilder(shape(4, 8, ScheduleName::zb_h1)).move_action_before("1W3", "1I3 enter"),
        shape(4, 8, ScheduleName::zb_h1), violation, "backward-order", "stages");
  plant("weight gradient never written",
        LogBuilder(shape(4, 8, ScheduleName::zb_h1)).drop_action("1W3"),
        shape(4, 8, ScheduleName::zb_h1), violation, "mb-skipped", "microbatches");

  // Depth, credits, order.
  plant("drain depth too small", LogBuilder(depth(s4m8, 1)), s4m8, violation, "plan-order",
        "drain_depth");
  plant("drain depth too large", LogBuilder(depth(s4m8, 5)), s4m8, violation, "over-credit",
        "drain_depth", LogBuilder(depth(s4m8, 5)).seq("0F4 enter"));
  plant("gate opens too early", LogBuilder(s4m8), depth(s4m8, 6), violation, "gate-early",
        "drain_depth", good.seq("3B0 enter"));
  plant("all credits, large", LogBuilder(depth(s16m64, 40)), s16m64, violation, "over-credit",
        "drain_depth");
  plant("fill and drain instead of 1F1B", LogBuilder(shape(4, 8, ScheduleName::gpipe)),
        shape(4, 8, ScheduleName::one_f_one_b), violation, "over-credit", "drain_depth");
  plant("over its credit, adaptive", LogBuilder(depth(s4m8, 5)), adaptive(s4m8), violation,
        "over-credit", "drain_depth");
  plant("zero bubble instead of 1F1B", LogBuilder(shape(4, 8, ScheduleName::zb_h1)),
        shape(4, 8, ScheduleName::one_f_one_b), violation, "plan-order", "schedule");
  plant("1F1B instead of interleaved", LogBuilder(shape(4, 8)),
        shape(4, 8, ScheduleName::interleaved), violation, "plan-order", "schedule");
  plant("interleaved chunks out of order",
        LogBuilder(shape(4, 8, ScheduleName::interleaved)).move_action_before("0F2", "2F0 enter"),
        shape(4, 8, ScheduleName::interleaved), violation, "plan-order", "order");
  plant("looped backward descends", LogBuilder(shape(4, 8, ScheduleName::looped_bfs)),
        shape(4, 8, ScheduleName::looped_bfs), pass);
  plant("descending backward, ascending planned", LogBuilder(shape(4, 8, ScheduleName::looped_bfs)),
        shape(4, 8, ScheduleName::gpipe), violation, "mb-order", "schedule");
  return rows;
}

class LogTable : public testing::TestWithParam<Planted> {};

TEST_P(LogTable, IsJudgedAndExplained) {
  const Planted& row = GetParam();
  const LogReport report = check(row.log, row.config);
  EXPECT_EQ(report.verdict, row.verdict) << described(report);
  ASSERT_EQ(report.findings.size(), row.rule.empty() ? 0U : 1U) << described(report);
  if (row.rule.empty()) return;
  const LogFinding& finding = report.findings.front();
  EXPECT_EQ(finding.rule, row.rule) << described(report);
  EXPECT_EQ(finding.likely, row.likely) << described(report);
  if (row.seq > 0) {
    EXPECT_EQ(finding.seq, row.seq) << described(report);
  }
  EXPECT_FALSE(finding.expected.empty());
  EXPECT_FALSE(finding.found.empty());
  EXPECT_THAT(finding.message, HasSubstr(finding.rule));
}

/// `TwoRecordsLost`.
std::string name_of(const testing::TestParamInfo<Planted>& row) {
  std::string name;
  bool capital = true;
  for (const char c : row.param.name) {
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (letter) name += capital ? static_cast<char>(std::toupper(c)) : c;
    capital = !letter;
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Planted, LogTable, testing::ValuesIn(planted()), name_of);

TEST(LogCheck, TheTablePlantsEveryRule) {
  const std::vector<Planted> rows = planted();
  EXPECT_GE(rows.size(), 60U);
  for (std::size_t rule = 0; rule < log_rules; ++rule) {
    const std::string_view name = to_string(static_cast<LogRule>(rule));
    EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [name](const Planted& row) {
      return row.rule == name;
    })) << name;
  }
}

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
