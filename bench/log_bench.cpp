// How fast logs are read and judged, on one core: bytes and records a second.
//
// log_ratio.py runs it beside log_peer.py: a reader in Python that only checks order.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <sluice/log_check.hpp>
#include <sluice/plan.hpp>

namespace sluice {
namespace {

constexpr int steps = 40;

PlanConfig shape() {
  PlanConfig config;
  config.stages = 8;
  config.microbatches = 1000;
  return config;
}

std::string text_log() {
  const std::vector<LogRecord> log = expected_log(derive_plan(shape()).timeline);
  std::string text;
  std::int64_t seq = 0;
  for (int step = 0; step < steps; ++step) {
    for (LogRecord record : log) {
      record.seq = ++seq;
      record.step = step;
      text += to_line(record) + '\n';
    }
  }
  return text;
}

void count(benchmark::State& state, std::string_view text, std::int64_t records) {
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
  state.SetItemsProcessed(records * state.iterations());
}

void Read(benchmark::State& state) {
  const std::string text = text_log();
  std::int64_t records = 0;
  for (auto _ : state) {
    LogReader reader;
    std::vector<LogLine> lines;
    records = 0;
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view piece = rest.substr(0, 1 << 16);
      reader.feed(piece, lines);
      rest.remove_prefix(piece.size());
      records += static_cast<std::int64_t>(lines.size());
      lines.clear();
    }
  }
  count(state, text, records);
}
BENCHMARK(Read)->Unit(benchmark::kMillisecond);

void check(benchmark::State& state, const std::optional<Plan>& plan) {
  const std::string text = text_log();
  std::int64_t records = 0;
  for (auto _ : state) {
    LogCheck check(plan);
    check.feed(check.add("run.log"), text);
    const LogReport report = check.finish();
    if (report.verdict != Verdict::pass) state.SkipWithError("the log must pass");
    records = report.records;
  }
  count(state, text, records);
}

void CheckAgainstAPlan(benchmark::State& state) { check(state, derive_plan(shape())); }
BENCHMARK(CheckAgainstAPlan)->Unit(benchmark::kMillisecond);

void CheckAgainstItself(benchmark::State& state) { check(state, {}); }
BENCHMARK(CheckAgainstItself)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
