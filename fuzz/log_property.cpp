// Properties of the judge of logs: no false alarm, whatever the notation and the order of the lines,
// and no planted mistake that passes.
//
// A million valid logs: RC_PARAMS=max_success=1000000 log_property --gtest_filter='*FalseAlarm*'
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <sluice/finding.hpp>
#include <sluice/fuzz/property.hpp>
#include <sluice/log_check.hpp>
#include <sluice/plan.hpp>

namespace sluice {
namespace {

/// A shape that some schedule can have.
PlanConfig any_config() {
  PlanConfig config;
  config.schedule = static_cast<ScheduleName>(*rc::gen::inRange(0, 10));
  const int chunks = default_chunks(config.schedule);
  config.stages = chunks * *rc::gen::inRange(1, 6);
  config.microbatches = *rc::gen::inRange(1, 17);
  if (config.schedule == ScheduleName::dualpipe_v) {
    config.microbatches = std::max(config.microbatches, config.stages);
  }
  if (config.schedule == ScheduleName::drain) {
    config.drain_depth = *rc::gen::inRange(0, config.microbatches + config.stages);
  }
  return config;
}

/// Draws from a seed: a property with a thousand choices in one case is slow to generate.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t end) { return engine_() % end; }

 private:
  std::mt19937_64 engine_;
};

std::uint64_t any_seed() { return *rc::gen::arbitrary<std::uint64_t>(); }

std::vector<LogRecord> log_of(const Plan& plan, bool ranks) {
  std::vector<LogRecord> log = expected_log(plan.timeline);
  for (LogRecord& record : log) {
    if (ranks) record.rank = plan.rank_of[record.action.stage.index()];
  }
  return log;
}

void renumber(std::vector<LogRecord>& log) {
  std::int64_t seq = 0;
  for (LogRecord& record : log) record.seq = ++seq;
}

std::string json_line(const LogRecord& record, bool more) {
  std::string line =
      fmt::format(R"({{"event":"{}","phase":"{}",{}"stage":{},"mb":{},"seq":{})",
                  record.event == LogRecord::Event::enter ? "enter" : "exit",
                  letter(record.action.phase), more ? R"("args":{"x":[1,"}"]},)" : "",
                  record.action.stage.value, record.action.mb.value, record.seq);
  if (record.rank) line += fmt::format(R"(,"rank":{})", record.rank->value);
  return line + '}';
}

std::string csv_line(const LogRecord& record) {
  return fmt::format(
      "{},a,{},{},{},{},{}", record.event == LogRecord::Event::enter ? "enter" : "exit",
      record.rank ? std::to_string(record.rank->value) : "", letter(record.action.phase),
      record.seq, record.action.mb.value, record.action.stage.value);
}

/// The log in up to three files, in any notation, its lines in any order.
LogReport check_scattered(const std::optional<Plan>& plan, std::vector<LogRecord> log, Dice& dice) {
  if (dice.below(2) == 0) {
    for (std::size_t i = log.size(); i > 1; --i) std::swap(log[i - 1], log[dice.below(i)]);
  }
  const std::size_t files = 1 + dice.below(3);
  const std::size_t notation = dice.below(3);
  const char* end = dice.below(2) == 0 ? "\n" : "\r\n";
  std::vector<std::string> texts(files);
  for (std::string& text : texts) {
    if (notation == 2) text = std::string("event,host,rank,phase,seq,mb,stage") + end;
  }
  for (const LogRecord& record : log) {
    std::string& text = texts[dice.below(files)];
    const bool more = dice.below(4) == 0;
    text += notation == 0   ? (more ? "host=a note=\"b c\" " : "") + to_line(record)
            : notation == 1 ? json_line(record, more)
                            : csv_line(record);
    text += end;
  }
  LogCheck check(plan);
  for (std::size_t i = 0; i < files; ++i) check.add(fmt::format("{}.log", i));
  for (std::size_t i = 0; i < files; ++i) check.feed(static_cast<int>(i), texts[i]);
  return check.finish();
}

std::string described(const LogReport& report) {
  std::string text(to_string(report.verdict));
  for (const LogFinding& finding : report.findings) text += "\n" + finding.message;
  return text;
}

SLUICE_PROPERTY(Log, NoFalseAlarmOnAnyValidLog) {
  const PlanConfig config = any_config();
  const Plan plan = derive_plan(config);
  Dice dice(any_seed());
  const bool ranks = dice.below(2) == 0;
  const LogReport report = check_scattered(plan, log_of(plan, ranks), dice);
  if (report.verdict != Verdict::pass) RC_FAIL(described(report));
  RC_ASSERT(report.findings.empty());
}

SLUICE_PROPERTY(Log, NoFalseAlarmWithoutAPlanAndTheShapeIsFound) {
  const PlanConfig config = any_config();
  const Plan plan = derive_plan(config);
  Dice dice(any_seed());
  const bool ranks = plan.ranks < plan.stages || dice.below(2) == 0;
  const LogReport report = check_scattered({}, log_of(plan, ranks), dice);
  if (report.verdict != Verdict::pass) RC_FAIL(described(report));
  RC_ASSERT(report.inference);
  const Inference& seen = *report.inference;
  RC_ASSERT(seen.stages == plan.stages);
  RC_ASSERT(seen.microbatches == plan.microbatches);
  if (ranks) RC_ASSERT(seen.chunks == plan.stages / plan.ranks);
  RC_ASSERT(std::any_of(seen.schedules.begin(), seen.schedules.end(),
                        [&plan](const Guess& guess) { return guess.schedule == plan.schedule; }));
  // A W beyond what the step can show is the smallest with the same order.
  if (plan.schedule == ScheduleName::drain) {
    PlanConfig found = config;
    found.drain_depth = seen.drain_depth;
    RC_ASSERT(derive_plan(found).order == plan.order);
    RC_ASSERT(seen.drain_depth <= plan.drain_depth);
  }
}

SLUICE_PROPERTY(Log, AnyOrderThatTheLawAllowsPassesAsAdaptive) {
  PlanConfig config;
  config.stages = *rc::gen::inRange(1, 6);
  config.microbatches = *rc::gen::inRange(1, 12);
  config.drain_depth = *rc::gen::inRange(0, 12);
  PlanConfig uneven = config;
  for (int s = 0; s < config.stages; ++s) {
    uneven.costs.forward.push_back(Time::from_units(*rc::gen::inRange(1, 9)));
    uneven.costs.backward.push_back(Time::from_units(*rc::gen::inRange(1, 9)));
  }
  config.order = OrderMode::adaptive;
  Dice dice(any_seed());
  const LogReport report =
      check_scattered(derive_plan(config), log_of(derive_plan(uneven), false), dice);
  if (report.verdict != Verdict::pass) RC_FAIL(described(report));
}

/// One mistake that no valid log has. Returns the seq of the first record that is wrong, or next to it.
std::int64_t plant(std::vector<LogRecord>& log, Dice& dice, std::string& what) {
  const std::size_t at = dice.below(log.size());
  const LogRecord chosen = log[at];
  const auto next_of_stage = [&log, &chosen](std::size_t from) {
    while (from < log.size() && log[from].action.stage != chosen.action.stage) ++from;
    return from;
  };
  switch (dice.below(8)) {
    case 0:
      what = "a record never written";
      log.erase(log.begin() + static_cast<std::ptrdiff_t>(at));
      renumber(log);
      return static_cast<std::int64_t>(next_of_stage(at)) + 1;
    case 1:
      what = "a record lost";
      log.erase(log.begin() + static_cast<std::ptrdiff_t>(at));
      return chosen.seq;
    case 2:
      what = "a record twice";
      log.insert(log.begin() + static_cast<std::ptrdiff_t>(at), chosen);
      renumber(log);
      return static_cast<std::int64_t>(at) + 2;
    case 3: {
      what = "two records of a stage in each other's place";
      const std::size_t other = next_of_stage(at + 1);
      if (other >= log.size()) return 0;
      std::swap(log[at], log[other]);
      renumber(log);
      return static_cast<std::int64_t>(other) + 1;
    }
    case 4: {
      what = "another microbatch";
      auto& mb = log[at].action.mb;
      mb = MicrobatchId(mb.value + 1 + static_cast<std::int64_t>(dice.below(3)));
      return static_cast<std::int64_t>(next_of_stage(at + 1)) + 1;
    }
    case 5: {
      what = "another stage";
      auto& stage = log[at].action.stage;
      stage = StageId(dice.below(2) == 0 && stage.value > 0 ? stage.value - 1 : stage.value + 1);
      return static_cast<std::int64_t>(next_of_stage(at + 1)) + 1;
    }
    case 6: {
      what = "another phase";
      auto& phase = log[at].action.phase;
      phase = static_cast<Phase>((static_cast<std::size_t>(phase) + 1 + dice.below(3)) % 4);
      return static_cast<std::int64_t>(next_of_stage(at + 1)) + 1;
    }
    default:
      what = "a seq twice";
      if (at == 0) return 0;
      log[at].seq = 1 + static_cast<std::int64_t>(dice.below(at));
      return static_cast<std::int64_t>(at) + 1;
  }
}

SLUICE_PROPERTY(Log, AnyPlantedMistakeIsFoundWhereItIs) {
  const Plan plan = derive_plan(any_config());
  Dice dice(any_seed());
  std::vector<LogRecord> log = log_of(plan, false);
  std::string what;
  const std::int64_t seq = plant(log, dice, what);
  RC_PRE(seq > 0);
  RC_TAG(what);
  LogCheck check(plan);
  const int number = check.add("run.log");
  std::string text;
  for (const LogRecord& record : log) text += to_line(record) + '\n';
  check.feed(number, text);
  const LogReport report = check.finish();
  RC_ASSERT(report.verdict != Verdict::pass);
  if (report.verdict == Verdict::incomplete) {
    RC_ASSERT(what == "a record lost");
    return;
  }
  const LogFinding& first = report.findings.front();
  if (!first.seq || *first.seq > seq) {
    RC_FAIL(fmt::format("{}, to be found by seq {}:\n{}", what, seq, described(report)));
  }
}

}  // namespace
}  // namespace sluice
