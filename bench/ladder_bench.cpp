// Where each nanosecond of an action goes: a ladder of loops, each with one ingredient of the runtime more
// than the one above it, and at its end the runtime itself. The table at the end of the run holds the time
// per action of each rung, and what its ingredient adds.
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/ready_set.hpp>
#include <sluice/replay/recorder.hpp>
#include <sluice/ticket.hpp>
#include <sluice/turn.hpp>

#include "empty_stage.hpp"

namespace sluice {
namespace {

constexpr int microbatches = 64;
constexpr int few_stages = 4;
constexpr int actions = 2 * few_stages * microbatches;

/// How far up the ladder a loop goes.
enum Rung { turn, function, ticket, owner, choice, events };

/// One stage and one microbatch after the other: what one action meets, without the life around it.
struct World {
  explicit World(asio::any_io_executor on) : berth(std::move(on), Turns().length) {
    PlanConfig config;
    config.stages = 1;
    config.microbatches = actions / 2;
    plan = derive_plan(config);
  }
  void begin() {
    director = LiveDirector(std::make_shared<FixedOrder>()).for_rank(plan, RankId(0), 0);
  }

  /// As a microbatch goes through a stage.
  auto run(Action action, int value) {
    filed.action = action;
    filed.value = value;
    return asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr, int)>(
        [this](detail::Resumer<std::exception_ptr, int> whom) {
          filed.owner.emplace(std::move(whom));
          inbox.file(filed);
        },
        asio::use_awaitable);
  }

  Plan plan;
  std::unique_ptr<RankDirector> director;
  EmptyStage stage;
  detail::Berth berth;
  detail::Pace pace{Turns()};
  detail::Inbox inbox;
  detail::ReadySet ready;
  detail::Ticket<int> filed;
};

asio::awaitable<void> owner_loop(World& world) {
  int x = 0;
  for (MicrobatchId mb(0); mb.value < actions / 2; mb = mb.next()) {
    x = co_await world.run(Action(StageId(0), Phase::forward, mb), x);
    x = co_await world.run(Action(StageId(0), Phase::backward, mb), x);
  }
}

void tell(World& world, Event::Kind kind, const Action& action) {
  Event event;
  event.kind = kind;
  event.action = action;
  world.director->observe(event);
}

asio::awaitable<void> rank_loop(World& world, Rung rung) {
  ActionContext<int> context;
  world.pace.begin_turn();
  for (int i = 0; i < actions; ++i) {
    detail::Ticket<int>* taken = &world.filed;
    if (rung >= ticket) {
      if (rung == ticket) world.inbox.file(world.filed);
      detail::TicketBase* next = world.inbox.take();
      for (; next != nullptr; next = next->next) world.ready.insert(next);
      std::size_t chosen = 0;
      if (rung >= choice) chosen = world.director->choose(ChoicePoint(), world.ready.options());
      taken = static_cast<detail::Ticket<int>*>(world.ready.take(chosen));
    }
    if (rung >= choice) tell(world, Event::Kind::enter, taken->action);
    int result = 0;
    if (rung >= function) result = co_await world.stage.forward(context, 0);
    if (rung >= events) tell(world, Event::Kind::exit, taken->action);
    world.pace.action_ended();
    if (rung >= owner) taken->hand_back(nullptr, result);
    if (world.pace.turn_has_ended()) {
      co_await world.berth.take_a_trip(&world.berth);
      world.pace.begin_turn();
    }
  }
}

void report(benchmark::State& state, double actions_per_iteration) {
  state.counters["per_action"] =
      benchmark::Counter(actions_per_iteration, benchmark::Counter::kIsIterationInvariantRate |
                                                    benchmark::Counter::kInvert);
}

void climb(benchmark::State& state, Rung rung) {
  asio::io_context context(1);
  World world(context.get_executor());
  for (auto _ : state) {
    world.begin();
    if (rung >= owner) asio::co_spawn(context, owner_loop(world), [](std::exception_ptr) {});
    asio::co_spawn(context, rank_loop(world, rung), [](std::exception_ptr) {});
    context.run();
    context.restart();
  }
  report(state, actions);
}

void whole_step(benchmark::State& state, int stages, bool metrics = false, bool recording = false) {
  asio::io_context context(1);
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  const Plan plan = derive_plan(config);
  const auto path = std::filesystem::temp_directory_path() / "ladder_bench.slrec";
  std::filesystem::remove(path);
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  if (metrics) options.metrics = [](const StepMetrics&) {};
  if (recording) {
    options.director = std::make_shared<replay::Recorder>(
        path, plan, std::make_shared<LiveDirector>(policy_for(plan)));
  }
  Pipeline<int> pipeline(
      plan, [](const StageContext&) { return std::make_unique<EmptyStage>(); }, options);
  for (auto _ : state) {
    pipeline.async_step(Batch<int>(std::make_shared<EmptySource>(), microbatches),
                        [](std::exception_ptr error, StepResult) {
                          if (error) std::rethrow_exception(error);
                        });
    context.run();
    context.restart();
  }
  report(state, 2 * stages * microbatches);
  std::filesystem::remove(path);
}

BENCHMARK_CAPTURE(climb, a_coroutine_and_its_look_at_the_clock, turn);
BENCHMARK_CAPTURE(climb, the_stage_function_a_coroutine, function);
BENCHMARK_CAPTURE(climb, inbox_and_ready_set, ticket);
BENCHMARK_CAPTURE(climb, the_microbatch_asleep_and_woken, owner);
BENCHMARK_CAPTURE(climb, the_choice_and_enter_told, choice);
BENCHMARK_CAPTURE(climb, exit_told, events);
// With many stages the lives of microbatches, beginning and update are spread over many actions.
BENCHMARK_CAPTURE(whole_step, ranks_asleep_and_woken_positions, 64);
BENCHMARK_CAPTURE(whole_step, lives_of_microbatches_update, few_stages);
BENCHMARK_CAPTURE(whole_step, and_a_clock_for_metrics, few_stages, true);
BENCHMARK_CAPTURE(whole_step, and_a_recorder, few_stages, false, true);

/// Prints each rung's time per action, and the difference to the one before it; the last two stand on the
/// whole step.
class Ladder final : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      const auto time = run.counters.find("per_action");
      if (time == run.counters.end() || run.run_type != Run::RT_Iteration) continue;
      rungs_.emplace_back(run.run_name.str(), 1e9 * time->second.value);
    }
  }
  void Finalize() override {
    double below = 0;
    std::string table = "\n    ns   adds  an action, S=4 M=64, one thread\n";
    for (const auto& [name, ns] : rungs_) {
      table += fmt::format("{:6.1f} {:+6.1f}  {}\n", ns, ns - below, name);
      if (name.find("/and_") == std::string::npos) below = ns;
    }
    GetOutputStream() << table;
  }

 private:
  std::vector<std::pair<std::string, double>> rungs_;
};

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  sluice::Ladder ladder;
  benchmark::RunSpecifiedBenchmarks(&ladder);
  benchmark::Shutdown();
  return 0;
}
