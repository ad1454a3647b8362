#include "run_recording.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/kernels/model.hpp>

#include "errors.hpp"
#include "run_identity.hpp"

namespace sluice::tools {
namespace {

using replay::RecordingError;
using replay::RecordingMode;

void warn(const std::string& text) { say(fmt::format("sluice train: warning: {}\n", text)); }

/// Of its own for each run: a run that is started again does not take the place of the one that failed.
std::filesystem::path ring_file(const std::filesystem::path& config,
                                const std::array<std::uint8_t, 16>& run) {
  return fmt::format("{}-{:02x}{:02x}{:02x}{:02x}.slrec", config.stem().string(), run[0], run[1],
                     run[2], run[3]);
}

/// Of a rank's ring that holds all that its actions are given in `record.payload` steps.
std::int64_t payload_bytes(const Config& config, const Plan& plan) {
  constexpr std::int64_t around = 256;  // of a value: its header, and those of its records
  const kernels::Perceptron model(config.model->widths);
  const auto cut = kernels::partition(model, plan.stages);
  const auto values = [&](std::int64_t width) { return config.batch->micro * width * 4 + around; };
  std::vector<std::int64_t> of_rank(static_cast<std::size_t>(plan.ranks));
  for (StageId stage(0); stage.value < plan.stages; stage = stage.next()) {
    const kernels::LayerRange& layers = cut[stage.index()];
    const bool last = stage.value + 1 == plan.stages;
    of_rank[plan.rank_of[stage.index()].index()] +=
        values(config.model->widths[static_cast<std::size_t>(layers.first)]) +
        values(config.model->widths[static_cast<std::size_t>(layers.last)]) +
        (last ? 2 * values(1) : 0);
  }
  const std::int64_t step =
      *std::max_element(of_rank.begin(), of_rank.end()) * plan.microbatches + (64 << 10);
  return step * config.record.payload * 17 / 10;  // values have five eighths of a ring
}

}  // namespace

RunRecording::RunRecording(const Config& config, const std::filesystem::path& file,
                           const Plan& plan, const kernels::DataSet& data,
                           std::shared_ptr<Director> inner)
    : inner_(std::move(inner)),
      asked_for_(config.record.file || config.record.mode || config.record.payload > 0),
      go_on_(config.record.go_on || !asked_for_) {
  const RecordConfig& record = config.record;
  if (record.off && record.file) {
    throw UsageError(
        config.places.at("mode"),
        fmt::format("record.mode = 'off', and a recording into {} is asked for; choose "
                    "ring, full or verify, or leave the file out",
                    record.file->string()));
  }
  if (record.off) return;
  replay::RecorderOptions options;
  options.mode = record.mode.value_or(record.file && record.payload == 0 ? RecordingMode::verify
                                                                         : RecordingMode::ring);
  options.ring_bytes =
      static_cast<std::size_t>(std::max(record.ring_bytes, payload_bytes(config, plan)));
  options.payload_steps = record.payload;
  options.overwrite = record.overwrite;
  options.sync_every = record.sync_every;
  options.go_on_unrecorded = go_on_;
  options.identity = describe_run(config, identity_of(config, data));
  kept_ = record.file.value_or(ring_file(file, options.run_id)).string();
  try {
    recorder_ = std::make_shared<replay::Recorder>(*kept_, plan, inner_, std::move(options));
  } catch (const RecordingError& error) {
    if (!go_on_) throw;
    kept_.reset();
    warn(fmt::format("the run is not recorded: {}", error.what()));
  }
}

std::shared_ptr<Director> RunRecording::director() const { return recorder_ ? recorder_ : inner_; }

void RunRecording::end(std::string& failure) {
  if (!recorder_) return;
  std::optional<RecordingError> cut = recorder_->failure();
  try {
    recorder_->close();
  } catch (const RecordingError& error) {
    cut = error;
  }
  if (const auto values = recorder_->not_saved(); values > 0) {
    warn(
        fmt::format("of {} values that actions were given only the size is recorded; there was no "
                    "room for them: raise record.ring_bytes, or free disk space",
                    values));
  }
  if (cut && go_on_) warn(fmt::format("the recording ends before the run does: {}", cut->what()));
  if (cut && !go_on_ && failure.empty()) failure = cut->what();
  if (asked_for_) return;
  if (failure.empty()) {
    std::error_code ignored;
    std::filesystem::remove(*kept_, ignored);
    kept_.reset();
  } else {
    say(fmt::format("its last events are in {}, for sluice replay and sluice show\n", *kept_));
  }
}

}  // namespace sluice::tools
