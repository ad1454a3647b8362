// Record and replay, whatever the shape, the order, the threads and the failures: the replay is the run,
// on any other machine.
//
// More cases: RC_PARAMS="max_success=100000" ./replay_property
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sluice/fuzz/property.hpp>
#include <sluice/replay/diff.hpp>

#include "../tests/recording_support.hpp"
#include "recorded_run.hpp"

namespace sluice::replay {
namespace {

using test::Machine;
using test::ToyRun;

struct Case {
  PlanConfig config;
  int steps = 1;
  Machine made_on;
  Machine replayed_on;
  std::vector<Action> throws_at;
  std::vector<int> microbatches;  ///< of each step; empty: as configured
};

void showValue(const Case& c, std::ostream& out) {
  out << fmt::format(
      "{} S={} M={} W={} order={} slots={} steps={} made on {} threads, seed {}, turns {}; "
      "replayed on {} threads, seed {}, turns {}; throws at",
      to_string(c.config.schedule), c.config.stages, c.config.microbatches,
      c.config.drain_depth ? *c.config.drain_depth : -1,
      c.config.order == OrderMode::fixed ? "fixed" : "adaptive", c.config.slots.value_or(-1),
      c.steps, c.made_on.threads, c.made_on.seed, c.made_on.turns, c.replayed_on.threads,
      c.replayed_on.seed, c.replayed_on.turns);
  for (const Action& action : c.throws_at) out << ' ' << to_string(action);
  if (!c.microbatches.empty()) out << "; M per step " << rc::toString(c.microbatches);
}

rc::Gen<Case> any_case() {
  return rc::gen::exec([] {
    const auto machine = [] {
      Machine result;
      result.threads = *rc::gen::element(0U, 0U, 1U, 2U, 4U);
      result.seed = *rc::gen::arbitrary<std::uint64_t>();
      result.turns = *rc::gen::inRange(0, 4);
      return result;
    };
    Case c;
    c.config.stages = *rc::gen::inRange(1, 7);
    c.config.microbatches = *rc::gen::inRange(1, 18);
    c.steps = *rc::gen::inRange(1, 4);
    c.config.schedule = *rc::gen::weightedElement<ScheduleName>({{8, ScheduleName::drain},
                                                                 {1, ScheduleName::interleaved},
                                                                 {1, ScheduleName::zb_h1},
                                                                 {1, ScheduleName::zb_v},
                                                                 {1, ScheduleName::dualpipe_v}});
    if (c.config.schedule == ScheduleName::drain) {
      c.config.drain_depth = *rc::gen::inRange(0, c.config.stages + c.config.microbatches + 1);
      c.config.order = *rc::gen::element(OrderMode::fixed, OrderMode::adaptive);
      const int slots = *rc::gen::element(0, 0, 1, 2, 3);
      if (slots > 0) c.config.slots = slots;
      if (*rc::gen::inRange(0, 3) == 0) {
        c.microbatches = *rc::gen::container<std::vector<int>>(static_cast<std::size_t>(c.steps),
                                                               rc::gen::inRange(1, 18));
      }
    } else {  // into a shape in which the schedule exists
      c.config.stages *= default_chunks(c.config.schedule);
      if (c.config.schedule == ScheduleName::dualpipe_v) c.config.microbatches += c.config.stages;
    }
    c.made_on = machine();
    c.replayed_on = machine();
    for (int failures = *rc::gen::element(0, 0, 1, 2, 3); failures > 0; --failures) {
      c.throws_at.emplace_back(StageId(*rc::gen::inRange(0, c.config.stages)),
                               *rc::gen::element(Phase::forward, Phase::backward,
                                                 Phase::input_gradient, Phase::weight_gradient),
                               MicrobatchId(*rc::gen::inRange(0, c.config.microbatches)));
    }
    return c;
  });
}

ToyRun run_of(const Case& c) {
  ToyRun run;
  run.config = c.config;
  run.steps = c.steps;
  if (!c.microbatches.empty()) {
    run.microbatches = [c](int step) { return c.microbatches[static_cast<std::size_t>(step)]; };
  }
  run.on_enter = [c](const Action& action) {
    for (const Action& bad : c.throws_at) {
      if (bad == action) throw std::domain_error("planted");
    }
  };
  return run;
}

void check_replay(const Case& c, const std::shared_ptr<const Recording>& recording,
                  const test::ToyOutcome& recorded) {
  const auto [replayer, outcome] = test::replay_toy(run_of(c), recording, c.replayed_on);
  if (replayer->divergence()) RC_LOG() << replayer->divergence()->message << '\n';
  RC_ASSERT(replayer->verdict() ==
            (recorded.errors.back().empty() ? Verdict::same : Verdict::failed_as_recorded));
  RC_ASSERT(outcome.errors == recorded.errors);
  RC_ASSERT(outcome.weights == recorded.weights);
  for (std::size_t k = 0; k < recorded.logs.size(); ++k) {
    RC_ASSERT(test::same_events(outcome.logs[k], recorded.logs[k]));
  }
}

SLUICE_PROPERTY(ReplayProperty, TheReplayIsTheRun) {
  const Case c = *any_case();
  RC_TAG(c.made_on.threads, c.replayed_on.threads, c.throws_at.empty());
  const test::TempFolder folder;
  const auto recorded = test::record_toy(run_of(c), folder.file("a"), c.made_on);
  const auto recording = Recording::open(folder.file("a"));
  RC_ASSERT(recording->closed());
  for (std::size_t k = 0; k < recorded.logs.size(); ++k) {
    const RecordedStep step = recording->step(k);
    RC_ASSERT(test::same_events(merge_events(step.ranks), recorded.logs[k]));
    RC_ASSERT(step.error == recorded.errors[k]);
  }
  check_replay(c, recording, recorded);
}

// --- the promise, over a fixed grid: adaptive order, one slow stage, so that ranks pick what is there ---

/// A run whose slow stage, depth and delays the seed decides.
ToyRun delayed_run(int stages, int microbatches, std::uint64_t seed) {
  KeyedRandom random(seed, stages, "delays", microbatches, "run");
  ToyRun run;
  run.config.stages = stages;
  run.config.microbatches = microbatches;
  run.config.order = OrderMode::adaptive;
  // Deep enough that a forward and a backward are often both ready; not so deep that all forwards come
  // first.
  run.config.drain_depth = stages + static_cast<int>(random.below(2));
  const auto slow = static_cast<int>(random.below(static_cast<std::uint32_t>(stages)));
  run.yields = [seed, slow](const Action& action) {
    const auto drawn = KeyedRandom(seed, 0, to_string(action), 0, "yields").below(6);
    return static_cast<int>(drawn) * (action.stage.value == slow ? 3 : 1);
  };
  return run;
}

class Promise : public testing::TestWithParam<int> {};

TEST_P(Promise, ARecordedRunReplaysOnAnyThreadCount) {
  // More seeds: SLUICE_SEEDS=1000
  const char* asked = std::getenv("SLUICE_SEEDS");
  const int seeds = asked == nullptr ? 200 : std::atoi(asked);
  const int stages = GetParam();
  // In memory where there is such a folder: what a disk takes for a thousand small files is not asked.
  const std::filesystem::path memory = "/dev/shm";
  const test::TempFolder folder(
      std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path());
  std::map<int, int> unplanned;
  int recordings = 0;
  for (const int microbatches : {4, 16}) {
    for (int seed = 0; seed < seeds; ++seed) {
      const ToyRun run = delayed_run(stages, microbatches, static_cast<std::uint64_t>(seed));
      const auto plan = derive_plan(run.config);
      for (const unsigned threads : {1U, 2U, 4U}) {
        const std::string file = folder.file("a");
        const Machine made_on{threads, static_cast<std::uint64_t>(seed)};
        const auto recorded = test::record_toy(run, file, made_on);
        const auto recording = Recording::open(file);
        std::filesystem::remove(file);
        unplanned[microbatches] += test::sequences(recorded.logs[0], stages) != plan.order;
        ++recordings;
        // On one, and on the others in turn.
        const std::vector<unsigned> others{0, 1, 2, 4};
        const Machine replayed_on{others[static_cast<std::size_t>(seed) % 4], 7};
        const auto [replayer, outcome] = test::replay_toy(run, recording, replayed_on);
        ASSERT_EQ(replayer->verdict(), Verdict::same)
            << fmt::format("S={} M={} seed={} made on {} threads, replayed on {}: {}", stages,
                           microbatches, seed, threads, replayed_on.threads,
                           replayer->divergence() ? replayer->divergence()->message : "");
        ASSERT_EQ(replayer->hashes(), 2 * stages * microbatches + stages);
        ASSERT_EQ(outcome.weights, recorded.weights);
        ASSERT_TRUE(test::same_events(outcome.logs[0], recorded.logs[0]));
      }
    }
  }
  RecordProperty("unplanned", unplanned[4] + unplanned[16]);
  fmt::print("S={}: {} recordings, with a pick that was not planned: {} at M=4, {} at M=16\n",
             stages, recordings, unplanned[4], unplanned[16]);
  EXPECT_GE(2 * (unplanned[4] + unplanned[16]), recordings)
      << "fewer than half of the recordings hold a pick that was not planned: they promise little";
}

INSTANTIATE_TEST_SUITE_P(Stages, Promise, testing::Values(2, 4, 8),
                         [](const auto& of) { return fmt::format("S{}", of.param); });

SLUICE_PROPERTY(ReplayProperty, TheRecordingOfTheReplayIsTheRecording) {
  const Case c = *any_case();
  const test::TempFolder folder;
  test::record_toy(run_of(c), folder.file("a"), c.made_on);
  const auto recording = Recording::open(folder.file("a"));

  const Plan plan = derive_plan(c.config);
  auto replayer = std::make_shared<Replayer>(recording, plan);
  auto recorder = std::make_shared<Recorder>(folder.file("b"), plan, replayer);
  test::run_toy(run_of(c), recorder, c.replayed_on, [replayer] { return replayer->more(); });
  recorder->close();

  const auto d = diff(*recording, *Recording::open(folder.file("b")));
  if (d.actions) RC_LOG() << d.actions->message << '\n';
  RC_ASSERT(d.verdict == Verdict::same);
}

SLUICE_PROPERTY(ReplayProperty, AnyPrefixReplaysToItsEnd) {
  Case c = *any_case();
  c.steps = *rc::gen::inRange(1, 40);
  c.microbatches.clear();
  const test::TempFolder folder;
  test::record_toy(run_of(c), folder.file("a"), c.made_on);
  auto bytes = test::bytes_of(folder.file("a"));
  const std::size_t first = 3 * format::page_size;
  bytes.resize(*rc::gen::inRange(first, bytes.size()));
  const auto recording = Recording::parse(std::move(bytes), "cut");
  const auto [replayer, outcome] = test::replay_toy(run_of(c), recording, c.replayed_on);
  if (replayer->divergence()) RC_LOG() << replayer->divergence()->message << '\n';
  RC_ASSERT(replayer->verdict() == Verdict::recording_ends);
}

SLUICE_PROPERTY(ReplayProperty, ALostOrChangedRecordIsNeverTheSame) {
  Case c = *any_case();
  c.throws_at.clear();
  const test::TempFolder folder;
  test::record_toy(run_of(c), folder.file("a"), c.made_on);
  auto bytes = test::bytes_of(folder.file("a"));
  // A byte of some record, with the checksum made right again: as if another run had been recorded.
  const std::size_t at = *rc::gen::inRange(3 * format::page_size, bytes.size());
  const auto bit = static_cast<std::byte>(1U << *rc::gen::inRange(0, 8));
  const auto original = Recording::parse(bytes, "a");
  bytes[at] ^= bit;
  test::reseal(bytes);
  try {
    const auto changed = Recording::parse(bytes, "changed");
    bool equal = changed->steps() == original->steps() && changed->closed();
    for (std::size_t k = 0; equal && k < original->steps(); ++k) {
      const auto a = original->step(k);
      const auto b = changed->step(k);
      // Without a result, as in recordings of format 1.0, there is nothing to compare it with.
      const bool same_result = !a.result || !b.result || a.result == b.result;
      equal = a.complete == b.complete && a.error == b.error && same_result &&
              test::same_events(merge_events(a.ranks), merge_events(b.ranks));
    }
    RC_TAG(equal);
    const auto [replayer, outcome] = test::replay_toy(run_of(c), changed, c.replayed_on);
    RC_ASSERT((replayer->verdict() == Verdict::same) == equal);
  } catch (const RecordingError&) {
    RC_TAG("refused");
  }
}

}  // namespace
}  // namespace sluice::replay
