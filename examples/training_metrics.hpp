// What Prometheus is told about a training server: PipelineOptions::metrics as counters and gauges.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <sluice/metrics.hpp>

/// The exposer answers on threads of its own, so that it can be asked while a
/// stage computes; everything else in this program is on one thread.
class TrainingMetrics {
 public:
  TrainingMetrics(const std::string& address, std::uint16_t port)
      : exposer_(fmt::format("{}:{}", address, port)) {
    exposer_.RegisterCollectable(registry_);
  }

  int port() const { return exposer_.GetListeningPorts().front(); }

  /// PipelineOptions::metrics.
  void step_ended(const sluice::StepMetrics& step) {
    if (!step.training) return;
    steps_.Add({{"result", step.error ? std::string(to_string(*step.error)) : "applied"}})
        .Increment();
    if (step.result) loss_.Add({}).Set(step.result->loss);
    seconds_.Observe(seconds(step.makespan_ns));
    bubble_.Add({{"kind", "measured"}}).Set(step.bubble_measured);
    bubble_.Add({{"kind", "planned"}}).Set(step.bubble_planned);
    for (const sluice::RankMetrics& rank : step.ranks) {
      const std::string name = std::to_string(rank.rank.value);
      const auto spent = [&](const char* state, std::int64_t time_ns) {
        rank_seconds_.Add({{"rank", name}, {"state", state}}).Increment(seconds(time_ns));
      };
      spent("busy", rank.busy_ns);
      spent("input_wait", rank.input_wait_ns);
      spent("order_wait", rank.order_wait_ns);
      held_.Add({{"rank", name}}).Set(rank.peak_held);
      longest_wait_.Add({{"rank", name}}).Set(seconds(rank.longest_wait_ns));
      for (const sluice::StageMetrics& stage : rank.stages) {
        stage_seconds_.Add({{"stage", std::to_string(stage.stage.value)}})
            .Increment(seconds(stage.busy_ns));
      }
    }
  }
  void running(bool now) { running_.Set(now ? 1 : 0); }

 private:
  static double seconds(std::int64_t time_ns) { return static_cast<double>(time_ns) * 1e-9; }
  prometheus::Family<prometheus::Gauge>& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(*registry_);
  }
  prometheus::Family<prometheus::Counter>& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(*registry_);
  }

  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  prometheus::Family<prometheus::Counter>& steps_ =
      counter("training_steps_total", "Training steps, by what became of them.");
  prometheus::Histogram& seconds_ =
      prometheus::BuildHistogram()
          .Name("training_step_seconds")
          .Help("From a step's first action to its last.")
          .Register(*registry_)
          .Add({}, prometheus::Histogram::BucketBoundaries{0.001, 0.01, 0.1, 1, 10});
  prometheus::Family<prometheus::Gauge>& loss_ =
      gauge("training_loss", "Mean over the samples of the last step that was applied.");
  prometheus::Family<prometheus::Gauge>& bubble_ =
      gauge("training_bubble_ratio", "Share of the last step in which the average rank idled.");
  prometheus::Family<prometheus::Counter>& rank_seconds_ =
      counter("training_rank_seconds_total", "How the ranks spent their time.");
  prometheus::Family<prometheus::Gauge>& held_ =
      gauge("training_rank_peak_held", "Most microbatches a rank held in the last step.");
  prometheus::Family<prometheus::Gauge>& longest_wait_ =
      gauge("training_rank_longest_wait_seconds", "A rank's longest single wait in the last step.");
  prometheus::Family<prometheus::Counter>& stage_seconds_ =
      counter("training_stage_busy_seconds_total", "How long the stages were in actions.");
  prometheus::Gauge& running_ =
      gauge("training_request_running", "1 while a request has the pipeline.").Add({});
  prometheus::Exposer exposer_;
};
