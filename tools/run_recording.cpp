#include "run_recording.hpp"

#include <array>
#include <cstdint>
#include <system_error>
#include <utility>

#include <fmt/format.h>

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

}  // namespace

RunRecording::RunRecording(const Config& config, const std::filesystem::path& file,
                           const Plan& plan, const kernels::DataSet& data,
                           std::shared_ptr<Director> inner)
    : inner_(std::move(inner)),
      asked_for_(config.record.file || config.record.mode),
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
  options.mode = record.mode.value_or(record.file ? RecordingMode::verify : RecordingMode::ring);
  options.ring_bytes = static_cast<std::size_t>(record.ring_bytes);
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
