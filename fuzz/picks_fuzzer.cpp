// The input's bytes decide: the first ones a small pipeline and what goes wrong in it, the rest which of the
// queued handlers runs next. Whatever they say, the step has the bits of the plain loop, or ends with one
// error and nothing applied; and the step after it is whole.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include <sluice/pipeline.hpp>
#include <sluice/replay/deterministic_executor.hpp>

#include "toy_model.hpp"

namespace {

using namespace sluice;
using test::Toy;

/// Reads one byte after the other; zeros behind the end, so that every run ends as first in first out.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  unsigned below(std::size_t bound) {
    if (left_ == 0) return 0;
    --left_;
    return static_cast<unsigned>(*data_++ % bound);
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

void require(bool holds) {
  if (!holds) std::abort();
}

PlanConfig shape(Bytes& bytes) {
  PlanConfig config;
  config.schedule =
      static_cast<ScheduleName>(bytes.below(static_cast<std::size_t>(ScheduleName::custom)));
  config.stages = default_chunks(config.schedule) * static_cast<int>(1 + bytes.below(3));
  config.microbatches = static_cast<int>(1 + bytes.below(5));
  if (config.schedule == ScheduleName::dualpipe_v) config.microbatches += config.stages;
  if (config.schedule == ScheduleName::drain) {
    config.drain_depth = static_cast<int>(bytes.below(8));
    if (bytes.below(2) != 0) config.order = OrderMode::adaptive;
  }
  return config;
}

std::vector<double> weights_of(Pipeline<Toy>& pipeline) {
  std::vector<double> weights;
  for (int s = 0; s < pipeline.plan().stages; ++s) {
    weights.push_back(static_cast<test::ToyStage&>(pipeline.stage(StageId(s))).weight());
  }
  return weights;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  const Plan plan = derive_plan(shape(bytes));

  enum class Wrong : std::uint8_t { nothing, a_stage_throws, short_input, cancelled };
  const auto wrong = static_cast<Wrong>(bytes.below(4));
  const unsigned when = bytes.below(64);

  bool armed = true;
  unsigned entered = 0;
  auto hooks = std::make_shared<test::ToyHooks>();
  hooks->on_enter = [&](const Action&) {
    if (armed && wrong == Wrong::a_stage_throws && entered++ == when) {
      throw std::domain_error("planted");
    }
  };
  hooks->yields = [&bytes](const Action&) { return static_cast<int>(bytes.below(3)); };

  replay::DeterministicContext context(
      [&bytes](std::span<const replay::DeterministicContext::Runnable> runnable) -> std::size_t {
        return bytes.below(runnable.size());
      });
  PipelineOptions options;
  options.executors = replay::any_order(context);
  Pipeline<Toy> pipeline(plan, test::toy_factory(hooks), options);
  const std::vector<double> before = weights_of(pipeline);
  const std::vector<double> after = test::toy_plain_loop(plan.stages, plan.microbatches, 1);

  const int available =
      wrong == Wrong::short_input ? static_cast<int>(when) % plan.microbatches : plan.microbatches;
  bool ended = false;
  bool failed = false;
  pipeline.async_step(test::toy_batch(0, plan.microbatches, available),
                      [&](const std::exception_ptr& error, const StepResult&) {
                        ended = true;
                        failed = error != nullptr;
                      });
  if (wrong == Wrong::cancelled) pipeline.cancel();
  context.run();
  require(ended);
  require(weights_of(pipeline) == (failed ? before : after));
  if (!failed) return 0;
  require(wrong != Wrong::nothing);

  armed = false;
  pipeline.async_step(
      test::toy_batch(0, plan.microbatches),
      [&](const std::exception_ptr& error, const StepResult&) { require(error == nullptr); });
  context.run();
  require(weights_of(pipeline) == after);
  return 0;
}
