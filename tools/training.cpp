#include "training.hpp"

#include <algorithm>
#include <latch>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <asio/use_future.hpp>

#include <sluice/executors.hpp>
#include <sluice/kernels/data_set_source.hpp>
#include <sluice/kernels/model.hpp>

#include "errors.hpp"
#include "failing_stage.hpp"

namespace sluice::tools {
namespace {

std::int64_t steps_of(const TrainConfig& train, std::int64_t steps_per_epoch) {
  return std::min(train.epochs * steps_per_epoch,
                  train.steps.value_or(std::numeric_limits<std::int64_t>::max()));
}

/// `wanted` threads, if the system grants them. Refused one, asio::thread_pool would wait for ever.
std::size_t granted_threads(int wanted) {
  std::vector<std::thread> threads;
  std::latch end(1);
  try {
    while (threads.size() < static_cast<std::size_t>(wanted)) {
      threads.emplace_back([&end] { end.wait(); });
    }
  } catch (const std::system_error&) {  // the last one there is
  }
  end.count_down();
  for (std::thread& thread : threads) thread.join();
  if (threads.size() == static_cast<std::size_t>(wanted)) return threads.size();
  throw UsageError("threads",
                   fmt::format("{} asked for, the system grants this process {}: expected no more; "
                               "lower train.threads or --threads, or raise the limits on processes "
                               "and memory",
                               wanted, threads.size()));
}

kernels::PerceptronStageOptions stage_options(const Config& config, std::int64_t steps) {
  kernels::PerceptronStageOptions options;
  options.micro_samples = config.batch->micro;
  options.sgd.learning_rate = static_cast<float>(config.train.learning_rate);
  options.sgd.momentum = static_cast<float>(config.train.momentum);
  options.sgd.weight_decay = static_cast<float>(config.train.weight_decay);
  if (config.train.decay) options.sgd.decay_steps = steps;
  options.sgd.check_finite = config.train.check_finite;
  return options;
}

/// A step that never comes would fail nothing, and nobody would know.
void check_fail_step(const Config& config, const kernels::DataSet& data,
                     std::vector<std::string>& errors) {
  const TrainConfig& train = config.train;
  if (train.fail_step == 0 || config.batch->global > data.samples()) return;
  const auto refuse = [&](std::string_view expected) {
    const auto place = config.places.find("fail_step");
    errors.push_back(
        error_line(place == config.places.end() ? config.name : place->second,
                   fmt::format("train.fail_step = {}: expected {}", train.fail_step, expected)));
  };
  const std::int64_t steps = steps_of(train, data.samples() / config.batch->global);
  if (!train.fail) {
    refuse("train.fail too, the action that fails there, like train.fail = '1F3'");
  } else if (train.fail_step >= steps) {
    refuse(fmt::format("less than {}, the steps of this run", steps));
  }
}

}  // namespace

void check_run(const Config& config, const Plan& plan, const kernels::DataSet& data) {
  const auto& widths = config.model->widths;
  const std::string model = fmt::format("model.widths = [{}]", fmt::join(widths, ", "));
  const std::string& place = config.places.at("widths");
  const auto layers = static_cast<std::int64_t>(widths.size()) - 1;
  std::vector<std::string> errors;
  if (layers < plan.stages) {
    errors.push_back(error_line(
        place, fmt::format("{}: {} layers for pipeline.stages = {}: expected a layer a stage at "
                           "least; add layers, or lower stages to {}",
                           model, layers, plan.stages, layers)));
  }
  if (widths.front() != data.features()) {
    errors.push_back(error_line(place, fmt::format("{}: the first is {}: expected {}, the pixels "
                                                   "of an image",
                                                   model, widths.front(), data.features())));
  }
  if (widths.back() != data.classes()) {
    errors.push_back(error_line(place, fmt::format("{}: the last is {}: expected {}, the classes",
                                                   model, widths.back(), data.classes())));
  }
  if (config.batch->global > data.samples()) {
    errors.push_back(error_line(
        config.name, fmt::format("batch.global = {}: expected at most {}, the samples there are",
                                 config.batch->global, data.samples())));
  }
  check_fail_step(config, data, errors);
  const auto& fail = config.train.fail;
  if (fail && std::none_of(plan.order.begin(), plan.order.end(), [&](const auto& of_rank) {
        return std::find(of_rank.begin(), of_rank.end(), *fail) != of_rank.end();
      })) {
    errors.push_back(error_line(config.places.at("fail"),
                                fmt::format("train.fail = {}: expected an action of the plan, like "
                                            "{}",
                                            to_string(*fail), to_string(plan.order[0].back()))));
  }
  if (!errors.empty()) throw UsageError(std::move(errors));
}

Training::Training(const Config& config, const Plan& plan,
                   std::shared_ptr<const kernels::DataSet> data, int threads,
                   std::shared_ptr<Director> director)
    : data_(std::move(data)),
      microbatches_(plan.microbatches),
      batch_samples_(config.batch->global),
      batches_(data_->samples(), batch_samples_, static_cast<std::uint64_t>(config.train.seed)),
      steps_(steps_of(config.train, batches_.steps_per_epoch())),
      pool_(granted_threads(threads)),
      pipeline_(
          plan,
          [this, &config](const StageContext& context) { return make_stage(config, context); },
          pipeline_options(config, std::move(director))) {}

Training::~Training() { pool_.join(); }

PipelineOptions Training::pipeline_options(const Config& config,
                                           std::shared_ptr<Director> director) {
  PipelineOptions options;
  options.executors = strand_per_rank(pool_.get_executor());
  options.director = std::move(director);
  options.seed = static_cast<std::uint64_t>(config.train.seed);
  options.log = [this](std::span<const Event> events) {
    events_.assign(events.begin(), events.end());
  };
  options.metrics = [this](const StepMetrics& metrics) {
    if (metrics.training) metrics_ = metrics;
  };
  options.check_finite = FiniteCheck::loss;  // before such a step is applied
  return options;
}

std::unique_ptr<Stage<kernels::Tensor>> Training::make_stage(const Config& config,
                                                             const StageContext& context) {
  const kernels::Perceptron model(config.model->widths);
  auto stage = std::make_unique<kernels::PerceptronStage>(
      context, model, kernels::partition(model, context.stages), stage_options(config, steps_));
  stages_.push_back(stage.get());
  const auto& fail = config.train.fail;
  if (!fail || fail->stage != context.stage) return stage;
  return std::make_unique<FailingStage<Tensor>>(std::move(stage), *fail, config.train.fail_step);
}

StepResult Training::step() {
  return pipeline_
      .async_step(kernels::make_batch(data_, batches_.batch(next_step_++), microbatches_),
                  asio::use_future)
      .get();
}

double Training::accuracy(const std::shared_ptr<const kernels::DataSet>& data) {
  std::vector<std::uint32_t> positions(static_cast<std::size_t>(data->samples()));
  std::iota(positions.begin(), positions.end(), 0U);
  const std::span<const std::uint32_t> all(positions);
  const auto batches = (data->samples() + batch_samples_ - 1) / batch_samples_;
  double correct = 0;
  for (std::int64_t i = 0; i < batches; ++i) {
    const auto [first, last] = kernels::even_slice(data->samples(), batches, i);
    const auto batch =
        all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
    const StepResult result =
        pipeline_
            .async_evaluate(kernels::make_batch(data, batch, microbatches_), {}, asio::use_future)
            .get();
    for (const Figure& figure : result.figures) {
      if (figure.name == "correct") correct += figure.sum;
    }
  }
  return correct / static_cast<double>(data->samples());
}

std::uint64_t Training::weights_hash() {
  return kernels::weights_hash(kernels::model_hashes(stages_));
}

}  // namespace sluice::tools
