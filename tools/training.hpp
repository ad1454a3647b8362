// Training: a perceptron on Fashion-MNIST as a Config describes it, step by step.
//
// What `train` and `replay` share: the same configuration and plan give the same data, stages and
// numbers here, whoever directs them. Owns the threads that the stages run on; used by one thread,
// which waits for each step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <asio/thread_pool.hpp>

#include <sluice/director.hpp>
#include <sluice/event.hpp>
#include <sluice/kernels/data_set.hpp>
#include <sluice/kernels/perceptron_stage.hpp>
#include <sluice/kernels/tensor_pipeline.hpp>
#include <sluice/metrics.hpp>
#include <sluice/plan.hpp>

#include "config.hpp"

namespace sluice::tools {

/// Throws UsageError when the model cannot be cut into the stages or does not fit the data, or when
/// an action of no plan is to fail.
void check_run(const Config& config, const Plan& plan, const kernels::DataSet& data);

class Training {
 public:
  /// Requires what require_training and check_run ask for. `threads`: that all stages share.
  /// `director`: null for a live run.
  Training(const Config& config, const Plan& plan, std::shared_ptr<const kernels::DataSet> data,
           int threads, std::shared_ptr<Director> director);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// How many steps the configuration asks for.
  std::int64_t steps() const { return steps_; }
  std::int64_t steps_per_epoch() const { return batches_.steps_per_epoch(); }

  /// Trains on the next global batch. Throws StepError.
  StepResult step();

  // What happened in the last step, whether it succeeded or not; events in causal order.
  std::span<const Event> events() const { return events_; }
  const StepMetrics& metrics() const { return metrics_; }

  /// The share of `data` whose class is recognised. Throws StepError.
  double accuracy(const std::shared_ptr<const kernels::DataSet>& data);

  /// Of all weights; the same for every cut.
  std::uint64_t weights_hash();

 private:
  using Tensor = kernels::Tensor;

  PipelineOptions pipeline_options(const Config& config, std::shared_ptr<Director> director);
  std::unique_ptr<Stage<Tensor>> make_stage(const Config& config, const StageContext& context);

  std::shared_ptr<const kernels::DataSet> data_;
  int microbatches_;
  std::int64_t batch_samples_;
  kernels::EpochBatches batches_;
  std::int64_t steps_;
  std::int64_t next_step_ = 0;
  std::vector<kernels::PerceptronStage*> stages_;  // owned by the pipeline
  std::vector<Event> events_;
  StepMetrics metrics_;
  asio::thread_pool pool_;
  Pipeline<Tensor> pipeline_;
};

}  // namespace sluice::tools
