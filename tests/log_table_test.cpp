// One mistake after the other planted in good logs: the verdict, the rule and the key that each must come to.
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
using test::depth;
using test::described;
using test::is_forward;
using test::LogBuilder;
using test::of_mb;
using test::of_stage;
using test::shape;
using testing::HasSubstr;

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

}  // namespace
}  // namespace sluice
