// Records some runs, and replays them: what the faults of replay_mutants.py are planted in.
//
//   mutant_replay record FOLDER          writes one recording a case
//   mutant_replay replay FOLDER          replays each, and prints what the replayer says
//   mutant_replay clean FOLDER N         replays them N times all in all, under other picks each time,
//                                        and prints how often the replayer raised an alarm
//
// Both of the first two print one JSON object a case with what was seen from outside: what the ranks told
// their director before the replayer heard it, errors, results and final weights. So whoever judges the
// replayer does not have to believe it.
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sluice/kernels/data_set_source.hpp>
#include <sluice/kernels/perceptron_stage.hpp>

#include "recorded_run.hpp"

namespace sluice::test {
namespace {

using kernels::Tensor;

/// What a run was, seen from outside.
struct Seen {
  std::vector<std::string> events;   // `step rank lamport kind action hash`, step and rank as told
  std::vector<std::string> errors;   // per step; empty: none
  std::vector<std::string> results;  // per step: the loss, and other figures
  std::string weights;
  bool stuck = false;  // nothing was left to run, and the step had not ended
};

struct Case {
  std::string name;
  PlanConfig config;
  int steps = 2;
  std::uint64_t seed = 1;
  bool tensors = false;                       // the perceptron instead of the toy
  std::string fails;                          // an action that throws in the last step
  std::function<int(int step)> microbatches;  // where M differs from step to step
  bool accumulate = false;                    // every second step updates
};

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
  add("toy-zb-h1", shape(ScheduleName::zb_h1, 3, 6, OrderMode::fixed), 2);
  add("toy-zb-v", shape(ScheduleName::zb_v, 4, 6, OrderMode::fixed), 2);
  add("perceptron-s3-m5", drain(3, 5, 3), 3);
  add("perceptron-s2-m4", drain(2, 4, 1), 2);
  add("perceptron-zb-h1", shape(ScheduleName::zb_h1, 3, 5, OrderMode::fixed), 2);
  return all;
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

/// Runs a case under `director` until its steps are through or `more` says no.
template <class Value>
Seen run(const Case& of, const StageFactory<Value>& factory,
         const std::function<Batch<Value>(int step, int microbatches)>& batch_of,
         std::shared_ptr<Director> director, std::uint64_t picks,
         const std::function<bool()>& more) {
  Seen seen;
  PipelineOptions options;
  options.director = std::make_shared<Witness>(std::move(director), seen);
  options.check_finite = FiniteCheck::everything;
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
  options.executors = single_thread(context.get_executor());
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
    pipeline.async_step(std::move(batch), [&](std::exception_ptr failure, StepResult result) {
      ended = true;
      thrown = failure;
      came_to = result;
    });
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

Seen run_toy_case(const Case& of, std::shared_ptr<Director> director, std::uint64_t picks,
                  const std::function<bool()>& more) {
  auto hooks = std::make_shared<ToyHooks>();
  int step_now = 0;
  hooks->on_enter = [&of, &step_now](const Action& action) {
    if (step_now == of.steps && to_string(action) == of.fails) {
      throw std::runtime_error("a planted failure");
    }
  };
  hooks->yields = [picks](const Action& action) {
    return static_cast<int>(KeyedRandom(picks, 0, to_string(action), 0, "yields").below(4));
  };
  const std::function<Batch<Toy>(int, int)> batch_of = [&step_now](int step, int microbatches) {
    step_now = step + 1;
    return toy_batch(step, microbatches);
  };
  return run<Toy>(of, toy_factory(hooks), batch_of, std::move(director), picks, more);
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

Seen run_case(
    const Case& of, std::shared_ptr<Director> director, std::uint64_t picks,
    const std::function<bool()>& more = [] { return true; }) {
  return of.tensors ? run_tensor_case(of, std::move(director), picks, more)
                    : run_toy_case(of, std::move(director), picks, more);
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string list(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) all.push_back(quoted(text));
  return fmt::format("[{}]", fmt::join(all, ","));
}

void print(const Case& of, const Seen& seen, const std::string& verdict) {
  std::puts(
      fmt::format(R"({{"case":{},"stuck":{},"events":{},"errors":{},"results":{},"weights":{}{}}})",
                  quoted(of.name), seen.stuck, list(seen.events), list(seen.errors),
                  list(seen.results), quoted(seen.weights), verdict)
          .c_str());
  std::fflush(stdout);
}

void record(const std::string& folder) {
  for (const Case& of : cases()) {
    const Plan plan = derive_plan(of.config);
    replay::RecorderOptions options;
    options.run_id = {};
    auto recorder = std::make_shared<replay::Recorder>(
        folder + '/' + of.name + ".slrec", plan, std::make_shared<LiveDirector>(policy_for(plan)),
        options);
    const Seen seen = run_case(of, recorder, of.seed);
    recorder->close();
    print(of, seen, "");
  }
}

struct Replayed {
  std::string verdict;
  std::optional<replay::Divergence> divergence;
  Seen seen;
};

Replayed replay_one(const Case& of, const std::shared_ptr<const replay::Recording>& recording,
                    std::uint64_t picks) {
  const Plan plan = derive_plan(of.config);
  auto replayer = std::make_shared<replay::Replayer>(
      recording, plan, std::make_shared<LiveDirector>(policy_for(plan)));
  Replayed replayed;
  replayed.seen = run_case(of, replayer, picks, [&replayer] { return replayer->more(); });
  replayed.verdict = replayed.seen.stuck ? "stuck"
                     : replayer->more()  ? "unfinished"
                                         : to_string(replayer->verdict());
  replayed.divergence = replayer->divergence();
  return replayed;
}

void replay_all(const std::string& folder) {
  for (const Case& of : cases()) {
    std::string verdict;
    Seen seen;
    try {
      const Replayed replayed =
          replay_one(of, replay::Recording::open(folder + '/' + of.name + ".slrec"), of.seed + 100);
      seen = replayed.seen;
      verdict = fmt::format(R"(,"verdict":{})", quoted(replayed.verdict));
      if (replayed.divergence) {
        const auto& divergence = *replayed.divergence;
        verdict += fmt::format(R"(,"class":{},"step":{},"rank":{},"local":{})",
                               quoted(to_string(divergence.kind)), divergence.step,
                               divergence.rank.value, divergence.local);
      }
    } catch (const std::exception& error) {
      verdict = fmt::format(R"(,"verdict":"error","message":{})", quoted(error.what()));
    }
    print(of, seen, verdict);
  }
}

int replay_clean(const std::string& folder, std::int64_t times) {
  std::vector<std::shared_ptr<const replay::Recording>> recordings;
  for (const Case& of : cases()) {
    recordings.push_back(replay::Recording::open(folder + '/' + of.name + ".slrec"));
  }
  const std::vector<Case> all = cases();
  std::int64_t alarms = 0;
  for (std::int64_t i = 0; i < times; ++i) {
    const std::size_t which = static_cast<std::size_t>(i) % recordings.size();
    const Case& of = all[which];
    const auto replayed = replay_one(of, recordings[which], static_cast<std::uint64_t>(i) + 1000);
    const std::string expected = of.fails.empty() ? "same" : "failed-as-recorded";
    if (replayed.verdict == expected) continue;
    ++alarms;
    std::printf(
        "alarm: %s under picks %lld: %s\n", of.name.c_str(), static_cast<long long>(i + 1000),
        replayed.divergence ? replayed.divergence->message.c_str() : replayed.verdict.c_str());
  }
  std::printf("%lld replays, %lld alarms\n", static_cast<long long>(times),
              static_cast<long long>(alarms));
  return alarms == 0 ? 0 : 1;
}

int main_of(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[0] == "record") {
    record(arguments[1]);
  } else if (arguments.size() == 2 && arguments[0] == "replay") {
    replay_all(arguments[1]);
  } else if (arguments.size() == 3 && arguments[0] == "clean") {
    return replay_clean(arguments[1], std::stoll(arguments[2]));
  } else {
    std::fputs("usage: mutant_replay record|replay FOLDER, mutant_replay clean FOLDER N\n", stderr);
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace sluice::test

int main(int count, char** values) {
  try {
    return sluice::test::main_of({values + 1, values + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mutant_replay: %s\n", error.what());
    return 2;
  }
}
