// A step that is to end wakes everybody who sleeps: only the rank inside a stage function makes it wait.
//
// In virtual time: one stage function takes a second, the step ends on its way, and every other rank must
// have stopped in the moment in which it was to end, not when the slow one comes back.
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <asio/use_awaitable.hpp>

#include <sluice/pipeline.hpp>
#include <sluice/policy.hpp>
#include <sluice/replay/deterministic_executor.hpp>

namespace sluice {
namespace {

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t end_at = 1000;

struct World {
  explicit World(std::uint64_t seed) : context(replay::seeded_picks(seed)) {}
  replay::DeterministicContext context;
  Action slow;
  std::optional<Action> throws;
  std::map<int, std::int64_t> stopped_at;  // by rank
};

/// Every action takes ten nanoseconds, one of them a second.
class Slow final : public Stage<int> {
 public:
  explicit Slow(World& world) : world_(world) {}

  asio::awaitable<int> forward(ActionContext<int>& context, int input) override {
    co_await work(context.action);
    co_return input;
  }
  asio::awaitable<Gradients<int>> backward(ActionContext<int>& context, int gradient) override {
    co_await work(context.action);
    co_return Gradients<int>(gradient, 0);
  }
  void accumulate(MicrobatchId, int) override {}
  void prepare_update(std::int64_t) override {}
  void commit() noexcept override {}
  void abort() noexcept override {}

 private:
  asio::awaitable<void> work(Action action) {
    std::int64_t span = action == world_.slow ? second : 10;
    if (action == world_.throws) span = end_at;
    co_await world_.context.async_sleep(span, asio::use_awaitable);
    if (action == world_.throws) throw std::runtime_error("planted");
  }
  World& world_;
};

class Source final : public BatchSource<int> {
  asio::awaitable<MicrobatchData<int>> next(MicrobatchId) override {
    co_return MicrobatchData<int>(0, 0, 1);
  }
};

/// Notes when each rank sees that the step is to end.
class Noting final : public Director {
 public:
  Noting(World& world, std::shared_ptr<Policy> policy) : world_(world), live_(std::move(policy)) {}
  std::unique_ptr<RankDirector> for_rank(const Plan& plan, RankId rank,
                                         std::int64_t step) override {
    return std::make_unique<OfRank>(world_, rank, live_.for_rank(plan, rank, step));
  }
  void step_ended(const StepEnd&) override {}

 private:
  class OfRank final : public RankDirector {
   public:
    OfRank(World& world, RankId rank, std::unique_ptr<RankDirector> live)
        : world_(world), rank_(rank), live_(std::move(live)) {}
    std::size_t choose(const ChoicePoint& point, std::span<const Option> options) override {
      return live_->choose(point, options);
    }
    void observe(const Event& event) override {
      if (event.kind == Event::Kind::stopped) {
        world_.stopped_at[rank_.value] = world_.context.now_ns();
      }
      live_->observe(event);
    }

   private:
    World& world_;
    RankId rank_;
    std::unique_ptr<RankDirector> live_;
  };
  World& world_;
  LiveDirector live_;
};

enum class Cause : std::uint8_t { cancelled, too_late, failed };

/// What is wrong, or nothing.
std::string stops_late(int stages, int slow, Cause cause, OrderMode order, std::uint64_t seed) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = 8;
  config.order = order;
  const Plan plan = derive_plan(config);
  World world(seed);
  world.slow = Action(StageId(slow), Phase::forward, MicrobatchId(0));
  if (cause == Cause::failed) {
    // Before the slow one in the pipeline, so that it is under way while the slow one is.
    if (slow == 0) return "";
    world.throws = Action(StageId(0), Phase::forward, MicrobatchId(1));
  }
  PipelineOptions options;
  options.executors = replay::serial_per_rank(world.context, plan.ranks);
  options.alarm = replay::virtual_alarm(world.context);
  options.director = std::make_shared<Noting>(world, policy_for(plan));
  Pipeline<int> pipeline(
      plan, [&world](const StageContext&) { return std::make_unique<Slow>(world); }, options);
  Batch<int> batch(std::make_shared<Source>(), config.microbatches);
  if (cause == Cause::too_late) batch.deadline = std::chrono::nanoseconds(end_at);
  bool failed = false;
  pipeline.async_step(
      std::move(batch),
      [&failed](const std::exception_ptr& error, const StepResult&) { failed = error != nullptr; });
  if (cause == Cause::cancelled) world.context.call_after(end_at, [&] { pipeline.cancel(); });
  world.context.run();
  if (!failed) return "the step did not fail";
  for (int rank = 0; rank < plan.ranks; ++rank) {
    if (rank == slow) continue;
    const auto stopped = world.stopped_at.find(rank);
    if (stopped == world.stopped_at.end()) return fmt::format("rank {} never stopped", rank);
    if (stopped->second >= second) {
      return fmt::format("rank {} stopped {} ns after the step was to end", rank,
                         stopped->second - end_at);
    }
  }
  return "";
}

TEST(PromptStop, WhoSleepsIsWokenWhateverEndsTheStep) {
  for (const Cause cause : {Cause::cancelled, Cause::too_late, Cause::failed}) {
    for (const OrderMode order : {OrderMode::fixed, OrderMode::adaptive}) {
      for (int stages = 2; stages <= 5; ++stages) {
        for (int slow = 0; slow < stages; ++slow) {
          for (std::uint64_t seed = 0; seed < 5; ++seed) {
            EXPECT_EQ(stops_late(stages, slow, cause, order, seed), "")
                << "cause " << static_cast<int>(cause) << ", stage " << slow << " of " << stages;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice
