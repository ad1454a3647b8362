// Schedules of your own, in the two ways there are: a policy that decides while the step runs, and a
// list of actions that is checked, drawn and priced before anything runs. Both train to the same bits as
// 1F1B does, because gradients are added in microbatch order whatever order they came in.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <asio/io_context.hpp>

#include <sluice/picture.hpp>
#include <sluice/pipeline.hpp>
#include <sluice/schedule_csv.hpp>

#include "dense_stage.hpp"

using namespace sluice;

/// Backward first: whenever a gradient is there, it goes on; a forward starts only when none is, and
/// when the stage holds fewer microbatches than its credit. (The law does it the other way round.)
class BackwardFirst final : public Policy {
 public:
  std::unique_ptr<RankPolicy> for_rank(const Plan& plan, RankId rank) override {
    return std::make_unique<OfRank>(plan.credits[rank.index()]);  // one stage a rank: ids coincide
  }

 private:
  class OfRank final : public RankPolicy {
   public:
    explicit OfRank(int credit) : credit_(credit) {}

    std::optional<std::size_t> choose(const ReadyView& ready) override {
      for (std::size_t i = 0; i < ready.size(); ++i) {  // by phase, then microbatch: ascending
        if (ready[i].phase == Phase::backward) return i;
      }
      if (ready.size() == 0 || held_ == credit_) return std::nullopt;  // wait for an arrival
      return 0;
    }

    /// What has happened, not what was chosen: a recording may have chosen instead.
    void observe(const Event& event) override {
      if (event.kind == Event::Kind::enter && event.action.phase == Phase::forward) ++held_;
      if (event.kind == Event::Kind::exit && event.action.phase == Phase::backward) --held_;
    }

   private:
    int credit_;
    int held_ = 0;
  };
};

/// Eager: more forwards in the warm-up, to hide the time that values are on their way. One row a stage;
/// files hold the same text.
constexpr std::string_view eager =
    "0F0,0F1,0F2,0F3,0F4,0B0,0F5,0B1,0B2,0B3,0B4,0B5\n"
    "1F0,1F1,1F2,1B0,1F3,1B1,1F4,1B2,1F5,1B3,1B4,1B5\n"
    "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3,2F4,2B4,2F5,2B5\n";
constexpr std::string_view impossible = "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n";

/// Four samples a microbatch, of a function that is to be learnt.
class Samples final : public BatchSource<Matrix> {
 public:
  asio::awaitable<MicrobatchData<Matrix>> next(MicrobatchId mb) override {
    Matrix input(4, 1);
    Matrix target(4, 1);
    for (std::size_t r = 0; r < 4; ++r) {
      const float x = 0.1F * static_cast<float>(4 * mb.index() + r) - 1;
      input.row(r)[0] = x;
      target.row(r)[0] = x * x;
    }
    co_return MicrobatchData<Matrix>(std::move(input), std::move(target), 4);
  }
};

/// Trains on a thread of ours, the caller's. Returns the last step's loss.
double train(const Plan& plan, std::shared_ptr<Director> director = nullptr) {
  asio::io_context context;
  PipelineOptions options;
  options.executors = single_thread(context.get_executor());
  options.director = std::move(director);  // null: what the plan says
  const StageFactory<Matrix> factory = [](const StageContext& stage) {
    const bool last = stage.stage.value == stage.stages - 1;
    return std::make_unique<DenseStage>(stage, stage.stage.value == 0 ? 1 : 8, last ? 1 : 8,
                                        DenseStage::Options());
  };
  Pipeline<Matrix> pipeline(plan, factory, options);
  const std::int64_t samples = std::int64_t{4} * plan.microbatches;
  double loss = 0;
  for (int step = 0; step < 50; ++step) {
    pipeline.async_step(Batch<Matrix>(std::make_shared<Samples>(), samples),
                        [&loss](const std::exception_ptr& error, const StepResult& result) {
                          if (error) std::rethrow_exception(error);
                          loss = result.loss;
                        });
    context.run();
    context.restart();
  }
  return loss;
}

void show(std::string_view name, const Plan& plan, double loss) {
  fmt::print("{}: makespan {}, {:.0f}% idle, stage 0 holds {}, loss {:.17g}\n{}\n", name,
             plan.timeline.makespan.units(), 100 * plan.bubble_of_makespan,
             plan.timeline.peak_held[0], loss,
             draw(plan.timeline.actions, plan.stages, fit(plan.timeline.actions, plan.stages)));
}

int main() {
  PlanConfig config;
  config.stages = 3;
  config.microbatches = 6;
  config.costs.backward = {Time::from_units(2)};  // a forward is 1
  config.costs.link = {Time::from_units(1)};      // from stage to stage

  config.schedule = ScheduleName::one_f_one_b;
  const Plan usual = derive_plan(config);
  show("1f1b", usual, train(usual));

  // Way one. Credits, costs and capacities are still the plan's.
  const double loss =
      train(usual, std::make_shared<LiveDirector>(std::make_shared<BackwardFirst>()));
  fmt::print("backward first, decided while it runs: loss {:.17g}\n\n", loss);

  // Way two.
  config.custom = read_schedule_csv(eager).schedule;
  const Plan own = derive_plan(config);
  show("eager", own, train(own));

  // A list that can never finish is refused before it runs, with the place and the reason.
  try {
    config.stages = 2;
    config.microbatches = 2;
    config.custom = read_schedule_csv(impossible).schedule;
    derive_plan(config);
  } catch (const ConfigError& error) {
    fmt::print("refused: {}\n", error.what());
  }
}
