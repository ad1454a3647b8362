// Logs that look alike and have different causes, in pairs, from small to large: each gets its own
// verdict, rule and key, and no second cause is invented.
#include <algorithm>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/log_check.hpp>
#include <sluice/plan.hpp>

#include "log_builder.hpp"
#include "log_checking.hpp"

namespace sluice::test {
namespace {

struct Shape {
  int stages;
  int microbatches;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << "S=" << shape.stages << " M=" << shape.microbatches;
}

/// What must come of a log: this verdict, and this one finding.
struct Wanted {
  Verdict verdict = Verdict::pass;
  std::string rule;  // empty: no finding
  std::string likely;
};

class LookAlikes : public testing::TestWithParam<Shape> {
 protected:
  int s() const { return GetParam().stages; }
  int m() const { return GetParam().microbatches; }
  PlanConfig plan(ScheduleName name = ScheduleName::drain) const { return shape(s(), m(), name); }

  static LogReport expect(const char* what, const LogBuilder& log,
                          const std::optional<PlanConfig>& config, const Wanted& wanted) {
    const LogReport report = check(log, config);
    EXPECT_EQ(report.verdict, wanted.verdict) << what << ": " << described(report);
    EXPECT_EQ(report.findings.size(), wanted.rule.empty() ? 0U : 1U)
        << what << ": " << described(report);
    if (wanted.rule.empty() || report.findings.empty()) return report;
    EXPECT_EQ(report.findings.front().rule, wanted.rule) << what << ": " << described(report);
    EXPECT_EQ(report.findings.front().likely, wanted.likely) << what << ": " << described(report);
    return report;
  }
};

bool is_forward(const LogRecord& record) { return record.action.phase == Phase::forward; }

/// Everything has gone forward, and of the backwards only the first `drained`.
LogBuilder stops_draining(const PlanConfig& config, int drained) {
  return LogBuilder(config).drop_if([drained](const LogRecord& record) {
    return !is_forward(record) && record.action.mb.value >= drained;
  });
}

TEST_P(LookAlikes, SkippedOrNotFinished) {
  const int mb = m() / 2;
  const LogBuilder skipped = LogBuilder(plan()).drop_if(
      [mb](const LogRecord& record) { return record.action.mb.value == mb; });
  expect("skipped", skipped, plan(), {Verdict::violation, "mb-skipped", "microbatches"});
  expect("skipped, no plan", skipped, {}, {Verdict::violation, "mb-skipped", "microbatches"});
  const LogBuilder unfinished =
      LogBuilder(plan()).cut_after(std::to_string(s() - 1) + "F" + std::to_string(mb) + " exit");
  for (const auto& config : {std::optional(plan()), std::optional<PlanConfig>()}) {
    const LogReport report =
        expect("not finished", unfinished, config, {Verdict::truncated, "truncated", ""});
    EXPECT_THAT(report.findings.front().message, testing::HasSubstr("not lost"));
  }
}

TEST_P(LookAlikes, DepthTooSmallOrAGateThatShutsAgain) {
  expect("too small", LogBuilder(depth(plan(), s() - 3)), plan(),
         {Verdict::violation, "plan-order", "drain_depth"});
  expect("too large", LogBuilder(depth(plan(), s() + 1)), plan(),
         {Verdict::violation, "over-credit", "drain_depth"});
  expect("backward before its activation",
         LogBuilder(plan()).move_action_before(std::to_string(s() - 1) + "B3",
                                               std::to_string(s() - 1) + "F3 enter"),
         plan(), {Verdict::violation, "backward-before-forward", "drain_depth"});
  // The gate is asked on every turn: the last few never leave. Nothing is out of order.
  const PlanConfig fill = plan(ScheduleName::gpipe);
  expect("shut again", stops_draining(fill, m() - 2), fill,
         {Verdict::truncated, "truncated", "drain_depth"});
  expect("never opened", stops_draining(fill, 0), fill,
         {Verdict::truncated, "truncated", "drain_depth"});
}

TEST_P(LookAlikes, StagesOrDevices) {
  expect("more stages", LogBuilder(shape(s() + 2, m())), plan(),
         {Verdict::violation, "unknown-id", "stages"});
  expect("fewer stages", LogBuilder(shape(s() - 1, m())), plan(),
         {Verdict::violation, "stage-silent", "stages"});
  const auto silent = [this](int stage) {
    return LogBuilder(plan()).drop_if(
        [stage](const LogRecord& record) { return record.action.stage.value == stage; });
  };
  expect("a stage without a device", silent(s() / 2), plan(),
         {Verdict::violation, "stage-silent", "devices"});
  expect("its forwards elsewhere", LogBuilder(plan()).drop_if([this](const LogRecord& record) {
    return record.action.stage.value == s() / 2 && is_forward(record);
  }),
         plan(), {Verdict::violation, "first-seen-backward", "devices"});
  expect("ranks exchanged", LogBuilder(plan()).change_all([this](LogRecord& record) {
    record.rank = RankId(s() - 1 - record.action.stage.value);
  }),
         plan(), {Verdict::violation, "unknown-id", "devices"});
}

TEST_P(LookAlikes, StepsThatCannotBeToldApart) {
  const LogBuilder once(plan());
  expect("numbers of microbatches restart", LogBuilder(once).append(once).renumber(), plan(),
         {Verdict::violation, "mb-repeated", "step"});
  expect("two runs in one file", LogBuilder(once).append(once), plan(),
         {Verdict::violation, "seq-order", ""});
  expect("a microbatch handed out twice",
         LogBuilder(once).repeat("0F2 enter", "0B" + std::to_string(m() - 1) + " enter"), plan(),
         {Verdict::violation, "mb-repeated", "microbatches"});
  expect("steps with their number",
         LogBuilder(once).step(0).append(LogBuilder(once).step(1)).renumber(), plan(), {});
}

TEST_P(LookAlikes, AShortStep) {
  expect("the ragged last microbatch dropped", LogBuilder(shape(s(), m() - 1)), plan(),
         {Verdict::violation, "plan-order", "microbatches"});
  expect("one more", LogBuilder(shape(s(), m() + 1)), plan(),
         {Verdict::violation, "unknown-id", "microbatches"});
  expect("the log cut before the last backward",
         LogBuilder(plan()).cut_after("1B" + std::to_string(m() - 1) + " exit"), plan(),
         {Verdict::truncated, "truncated", ""});
  expect("a microbatch lost with its numbers",
         LogBuilder(plan()).lose_if(
             [this](const LogRecord& record) { return record.action.mb.value == m() / 2; }),
         plan(), {Verdict::incomplete, "seq-gap", ""});
}

TEST_P(LookAlikes, Chunks) {
  const PlanConfig interleaved = plan(ScheduleName::interleaved);
  const int ranks = s() / 2;
  LogBuilder placed(interleaved);
  placed.change_all(
      [ranks](LogRecord& record) { record.rank = RankId(record.action.stage.value % ranks); });
  expect("interleaved", placed, interleaved, {});
  expect("interleaved, no plan", placed, {}, {});
  expect("1F1B instead", LogBuilder(plan()), interleaved,
         {Verdict::violation, "plan-order", "schedule"});
  expect("breadth first instead", LogBuilder(plan(ScheduleName::looped_bfs)), interleaved,
         {Verdict::violation, "plan-order", "schedule"});
}

TEST_P(LookAlikes, ABackwardInTwoHalves) {
  const PlanConfig split = plan(ScheduleName::zb_h1);
  const PlanConfig whole = plan(ScheduleName::one_f_one_b);
  expect("split", LogBuilder(split), split, {});
  expect("split instead of whole", LogBuilder(split), whole,
         {Verdict::violation, "plan-order", "schedule"});
  expect("whole instead of split", LogBuilder(whole), split,
         {Verdict::violation, "plan-order", "schedule"});
  expect("a half never written", LogBuilder(split).drop_action("1W3"), split,
         {Verdict::violation, "mb-skipped", "microbatches"});
  expect("the halves exchanged", LogBuilder(split).move_action_before("1W3", "1I3 enter"), split,
         {Verdict::violation, "backward-order", "stages"});
}

INSTANTIATE_TEST_SUITE_P(FromSmallToLarge, LookAlikes,
                         testing::Values(Shape{4, 8}, Shape{8, 24}, Shape{16, 64}));

/// The first forward with which a stage holds more than its credit.
std::optional<LogRecord> first_over(const LogBuilder& log, const std::vector<int>& credits) {
  std::map<std::int32_t, int> held;
  for (const LogRecord& record : log.records()) {
    const std::int32_t stage = record.action.stage.value;
    const bool enters = record.event == LogRecord::Event::enter;
    if (enters && is_forward(record) && ++held[stage] > credits[static_cast<std::size_t>(stage)]) {
      return record;
    }
    if (!enters && !is_forward(record)) --held[stage];
  }
  return std::nullopt;
}

TEST(LogCredit, AStageMayHoldItsCreditAndNotOneMore) {
  for (int stages = 2; stages <= 8; ++stages) {
    for (int more = 0; more <= 1; ++more) {
      // One stage after the other has one more credit than is planned.
      for (int stage = 0; stage < stages; ++stage) {
        const PlanConfig planned = shape(stages, 16);
        PlanConfig run = planned;
        run.credits = derive_plan(planned).credits;
        const std::vector<int> credits = *run.credits;
        (*run.credits)[static_cast<std::size_t>(stage)] += more;
        const LogBuilder log(run);
        const auto over = first_over(log, credits);
        const LogReport report = check(log, adaptive(planned));
        if (!over) {
          EXPECT_EQ(report.verdict, Verdict::pass) << described(report);
          continue;
        }
        ASSERT_EQ(more, 1);
        ASSERT_EQ(report.findings.size(), 1U) << described(report);
        EXPECT_EQ(report.findings.front().rule, "over-credit") << described(report);
        EXPECT_EQ(report.findings.front().seq, over->seq) << described(report);
        EXPECT_EQ(report.findings.front().stage, over->action.stage);
      }
    }
  }
}

TEST(LogCredit, TheGateOpensAtWhatItAsksForAndNotOneEarlier) {
  for (int stages = 2; stages <= 8; ++stages) {
    for (int drain_depth = stages; drain_depth <= stages + 5; ++drain_depth) {
      const PlanConfig planned = depth(shape(stages, 32), drain_depth);
      EXPECT_EQ(check(LogBuilder(planned), adaptive(planned)).verdict, Verdict::pass);
      const LogBuilder early(depth(planned, drain_depth - 1));
      const LogReport report = check(early, adaptive(planned));
      ASSERT_EQ(report.findings.size(), 1U) << described(report);
      EXPECT_EQ(report.findings.front().rule, "gate-early") << described(report);
      EXPECT_EQ(report.findings.front().seq, early.seq(std::to_string(stages - 1) + "B0 enter"));
    }
  }
}

}  // namespace
}  // namespace sluice::test
