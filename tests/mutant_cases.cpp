#include "mutant_cases.hpp"

#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>

#include <sluice/kernels/data_set_source.hpp>
#include <sluice/kernels/perceptron_stage.hpp>
#include <sluice/kernels/tensor_pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>

#include "recorded_run.hpp"
#include "waits_for_ever.hpp"

namespace sluice::test {
namespace {

using kernels::Tensor;

PlanConfig shape(ScheduleName schedule, int stages, int microbatches, OrderMode order) {
  PlanConfig config;
  config.schedule = schedule;
  config.stages = stages;
  config.microbatches = microbatches;
  config.order = order;
  return config;
}

/// What a failed step says. Throws what is no failure of a step: it would end any program.
std::string error_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const StepError& error) {
    return error.what();
  }
}

const std::shared_ptr<const kernels::DataSet>& data() {
  static const auto made = [] {
    constexpr int samples = 64;
    constexpr int features = 20;
    std::vector<std::uint8_t> bytes;
    std::vector<std::uint8_t> labels;
    for (int i = 0; i < samples; ++i) {
      labels.push_back(static_cast<std::uint8_t>(i * 7 % 4));
      for (int f = 0; f < features; ++f) {
        bytes.push_back(static_cast<std::uint8_t>((i + 1) * (f + 3) * 37 % 251));
      }
    }
    return std::make_shared<const kernels::DataSet>("made up", bytes, labels, 4,
                                                    kernels::Normalization{0.5F, 0.3F});
  }();
  return made;
}

std::string_view name_of(Event::Kind kind) {
  constexpr std::array<std::string_view, 6> names{"enter",   "exit",      "failed",
                                                  "stopped", "committed", "aborted"};
  return names.at(static_cast<std::size_t>(kind));
}

/// Stands before another director and notes what the ranks tell it.
class Witness final : public Director {
 public:
  Witness(std::shared_ptr<Director> inner, Seen& seen) : inner_(std::move(inner)), seen_(seen) {}

  std::unique_ptr<RankDirector> for_rank(const Plan& plan, RankId rank,
                                         std::int64_t step) override {
    return std::make_unique<Rank>(inner_->for_rank(plan, rank, step), seen_, rank, step);
  }
  void before_commit(std::int64_t step) override { inner_->before_commit(step); }
  void step_ended(const StepEnd& end) override { inner_->step_ended(end); }

 private:
  class Rank final : public RankDirector {
   public:
    Rank(std::unique_ptr<RankDirector> inner, Seen& seen, RankId rank, std::int64_t step)
        : inner_(std::move(inner)), seen_(seen), rank_(rank), step_(step) {}
    std::size_t choose(const ChoicePoint& point, std::span<const Option> options) override {
      return inner_->choose(point, options);
    }
    void observe(const Event& event) override {
      seen_.events.push_back(fmt::format(
          "{} {} {} {} {} {} {} {}", step_, rank_.value, event.lamport, name_of(event.kind),
          to_string(event.action), event.hashed ? fmt::format("{:016x}", event.hash) : "-",
          event.step, event.rank.value));
      inner_->observe(event);
    }
    std::string outside(const OutsideValue& value,
                        const std::function<std::string()>& read) override {
      return inner_->outside(value, read);
    }
    bool wants_hashes() const override { return inner_->wants_hashes(); }

   private:
    std::unique_ptr<RankDirector> inner_;
    Seen& seen_;
    RankId rank_;
    std::int64_t step_;
  };

  std::shared_ptr<Director> inner_;
  Seen& seen_;
};

/// Runs a case under `director` until its steps are through or `more` says no; `cancel`, which may be null,
/// ends the step that runs.
template <class Value>
Seen run(const Case& of, const StageFactory<Value>& factory,
         const std::function<Batch<Value>(int step, int microbatches)>& batch_of,
         std::shared_ptr<Director> director, std::uint64_t picks, const std::function<bool()>& more,
         asio::cancellation_signal* cancel = nullptr) {
  Seen seen;
  PipelineOptions options;
  options.director = std::make_shared<Witness>(std::move(director), seen);
  constexpr bool tells = requires(const Value& value) { WireTraits<Value>::finite(value); };
  options.check_finite = tells ? FiniteCheck::everything : FiniteCheck::loss;
  options.clock = {};
  options.seed = 5;
  options.stall_after = std::chrono::seconds(3);
  options.stall_asks = false;
  options.on_stall = [](const std::string& report) {
    std::printf("stalled\n%s\n", report.c_str());
    std::fflush(stdout);
    std::_Exit(3);
  };
  replay::DeterministicContext context(replay::seeded_picks(picks));
  options.executors = replay::any_order(context);
  Pipeline<Value> pipeline(derive_plan(of.config), factory, options);
  for (int step = 0; step < of.steps && more(); ++step) {
    const int microbatches = of.microbatches ? of.microbatches(step) : of.config.microbatches;
    Batch<Value> batch = batch_of(step, microbatches);
    batch.microbatches = microbatches;
    if (of.accumulate) {
      batch.update = step % 2 == 1;
      batch.samples *= 2;
    }
    bool ended = false;
    std::exception_ptr thrown;
    StepResult came_to;
    const auto on_end = [&](std::exception_ptr failure, StepResult result) {
      ended = true;
      thrown = failure;
      came_to = result;
    };
    if (cancel != nullptr) {
      pipeline.async_step(std::move(batch), asio::bind_cancellation_slot(cancel->slot(), on_end));
    } else {
      pipeline.async_step(std::move(batch), on_end);
    }
    context.run();
    if (!ended) {
      seen.stuck = true;
      break;
    }
    seen.errors.push_back(thrown ? error_of(thrown) : "");
    const auto bits = [](double value) {
      return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(value));
    };
    std::string result = bits(came_to.loss);
    for (const Figure& figure : came_to.figures)
      result += ' ' + figure.name + ' ' + bits(figure.sum);
    seen.results.push_back(result);
  }
  for (int s = 0; s < of.config.stages && !seen.stuck; ++s) {
    seen.weights += fmt::format("{:016x} ", pipeline.stage(StageId(s)).state_hash().value_or(0));
  }
  return seen;
}

Seen run_toy_case(const Case& of, As as, std::shared_ptr<Director> director, std::uint64_t picks,
                  const std::function<bool()>& more) {
  auto hooks = std::make_shared<ToyHooks>();
  int step_now = 0;
  asio::cancellation_signal cancel;
  hooks->on_enter = [&](const Action& action) {
    if (step_now != of.steps) return;
    if (to_string(action) == of.fails) throw std::runtime_error("a planted failure");
    if (as == As::live && to_string(action) == of.cancelled) {
      cancel.emit(asio::cancellation_type::terminal);
    }
  };
  hooks->yields = [picks](const Action& action) {
    return static_cast<int>(KeyedRandom(picks, 0, to_string(action), 0, "yields").below(4));
  };
  const std::function<Batch<Toy>(int, int)> batch_of = [&step_now](int step, int microbatches) {
    step_now = step + 1;
    return toy_batch(step, microbatches);
  };
  return run<Toy>(of, toy_factory(hooks), batch_of, std::move(director), picks, more, &cancel);
}

Seen run_tensor_case(const Case& of, std::shared_ptr<Director> director, std::uint64_t picks,
                     const std::function<bool()>& more) {
  const kernels::Perceptron model({20, 12, 9, 12, 4});
  kernels::PerceptronStageOptions of_stage;
  of_stage.micro_samples = 3;
  of_stage.sgd.momentum = 0.9F;
  of_stage.sgd.weight_decay = 0.01F;
  of_stage.sgd.decay_steps = 8;
  of_stage.sgd.check_finite = true;
  const StageFactory<Tensor> factory = [&](const StageContext& context) {
    return std::make_unique<kernels::PerceptronStage>(
        context, model, kernels::partition(model, context.stages), of_stage);
  };
  // Not a multiple of the microbatches: some hold a sample more.
  kernels::EpochBatches batches(data()->samples(), 3 * of.config.microbatches + 2, 5);
  const std::function<Batch<Tensor>(int, int)> batch_of = [&](int step, int microbatches) {
    return kernels::make_batch(data(), batches.batch(step), microbatches);
  };
  return run<Tensor>(of, factory, batch_of, std::move(director), picks, more);
}

}  // namespace

std::vector<Case> cases() {
  const auto drain = [](int stages, int microbatches, int depth) {
    PlanConfig config = shape(ScheduleName::drain, stages, microbatches, OrderMode::adaptive);
    config.drain_depth = depth;
    return config;
  };
  std::vector<Case> all;
  const auto add = [&all](const char* name, const PlanConfig& config, int steps) -> Case& {
    Case& added = all.emplace_back();
    added.name = name;
    added.config = config;
    added.steps = steps;
    added.seed = 10 + all.size();
    added.tensors = added.name.starts_with("perceptron");
    return added;
  };
  add("toy-s3-m6", drain(3, 6, 2), 3);
  add("toy-s4-m9-w6", drain(4, 9, 6), 2);
  add("toy-s2-m4-w0", drain(2, 4, 0), 2);
  add("toy-fails", drain(3, 6, 3), 3).fails = "1B3";
  add("toy-m-varies", drain(3, 6, 2), 3).microbatches = [](int step) { return 3 + 2 * step; };
  add("toy-accumulates", drain(3, 5, 3), 4).accumulate = true;
  add("toy-cancelled", drain(3, 6, 2), 3).cancelled = "1B2";
  add("toy-waits-for-ever", shape(ScheduleName::drain, 3, 6, OrderMode::fixed), 1).waits_for_ever =
      true;
  PlanConfig one_slot = drain(4, 7, 3);
  one_slot.slots = 1;
  add("toy-one-slot", one_slot, 3);
  PlanConfig fixed_one_slot = one_slot;
  fixed_one_slot.order = OrderMode::fixed;
  add("toy-fixed-one-slot", fixed_one_slot, 2);
  add("toy-zb-h1", shape(ScheduleName::zb_h1, 3, 6, OrderMode::fixed), 2);
  add("toy-zb-v", shape(ScheduleName::zb_v, 4, 6, OrderMode::fixed), 2);
  add("perceptron-s3-m5", drain(3, 5, 3), 3);
  add("perceptron-s2-m4", drain(2, 4, 1), 2);
  add("perceptron-zb-h1", shape(ScheduleName::zb_h1, 3, 5, OrderMode::fixed), 2);
  return all;
}

std::string Case::verdict() const {
  if (waits_for_ever) return "stuck-as-recorded";
  return fails.empty() && cancelled.empty() ? "same" : "failed-as-recorded";
}

std::shared_ptr<Policy> policy_of(const Case& of, const Plan& plan) {
  if (of.waits_for_ever) return std::make_shared<WaitsForEver>();
  return policy_for(plan);
}

Seen run_case(const Case& of, As as, std::shared_ptr<Director> director, std::uint64_t picks,
              const std::function<bool()>& more) {
  return of.tensors ? run_tensor_case(of, std::move(director), picks, more)
                    : run_toy_case(of, as, std::move(director), picks, more);
}

}  // namespace sluice::test
