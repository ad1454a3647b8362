// Pipelines of the toy model on a host's own executors, for the tests that look at them from the host's side.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>

#include <sluice/pipeline.hpp>

#include "toy_model.hpp"

namespace sluice::test {

inline Plan plan_of(int stages, int microbatches) {
  PlanConfig config;
  config.stages = stages;
  config.microbatches = microbatches;
  return derive_plan(config);
}

inline std::vector<double> weights_of(Pipeline<Toy>& pipeline) {
  std::vector<double> weights;
  for (int s = 0; s < pipeline.plan().stages; ++s) {
    weights.push_back(static_cast<ToyStage&>(pipeline.stage(StageId(s))).weight());
  }
  return weights;
}

inline PipelineOptions on(asio::any_io_executor executor) {
  PipelineOptions options;
  options.executors = strand_per_rank(std::move(executor));
  return options;
}

/// Suspends in 1F2 until it is let go.
struct Gate {
  explicit Gate(asio::thread_pool& pool) : timer(pool, std::chrono::hours(1)) {}
  /// From any thread, once it is reached.
  void open() {
    asio::post(home, [this] { timer.cancel(); });
  }

  asio::steady_timer timer;
  std::promise<void> reached;
  asio::any_io_executor home;  // the rank's, which the timer is used on; set before `reached`
};

class GatedStage final : public Stage<Toy> {
 public:
  explicit GatedStage(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  asio::awaitable<Toy> forward(ActionContext<Toy>& context, Toy input) override {
    if (to_string(context.action) == "1F2") {
      gate_->home = co_await asio::this_coro::executor;
      gate_->reached.set_value();
      try {
        co_await gate_->timer.async_wait(asio::use_awaitable);
      } catch (const std::system_error&) {  // let go
      }
    }
    co_return input;
  }
  asio::awaitable<Gradients<Toy>> backward(ActionContext<Toy>&, Toy gradient) override {
    co_return Gradients<Toy>(gradient, Toy());
  }
  void accumulate(MicrobatchId, Toy) override {}
  void prepare_update(std::int64_t) override {}
  void commit() noexcept override { ++commits; }
  void abort() noexcept override { ++aborts; }

  int commits = 0;
  int aborts = 0;

 private:
  std::shared_ptr<Gate> gate_;
};

}  // namespace sluice::test
