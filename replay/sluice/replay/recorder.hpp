// Recorder: a director that writes down what another one decides.
//
// Give it to a pipeline in place of the director it wraps. Every event is in the file before its effect
// leaves the rank; replaying the file gives the same run.
//
// Disk space for a whole step is taken before the step starts, so a full disk is met between steps and
// never inside one. It then ends the next step before anything has run, with the RecordingError, which
// every further step repeats; or, if the options say so, the run goes on and the recording ends there.
// Either way the file holds every step before.
//
// Lives as long as the pipeline. Calls arrive as Director promises them; the rest between steps.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/director.hpp>
#include <sluice/plan.hpp>
#include <sluice/replay/planned_order.hpp>
#include <sluice/replay/recorded_facts.hpp>
#include <sluice/replay/recording_error.hpp>
#include <sluice/replay/recording_header.hpp>
#include <sluice/replay/recording_writer.hpp>

namespace sluice::replay {

struct RecorderOptions {
  RecordingMode mode = RecordingMode::verify;
  /// Of each rank, in mode `ring`. More where a few steps would not fit.
  std::size_t ring_bytes = std::size_t{8} << 20;
  /// Takes the place of a file that exists; otherwise that is an error.
  bool overwrite = false;
  /// After so many steps the disk is waited for: what a power cut can cost. 0: the system sees to it in
  /// its own time, and a killed process loses nothing either way.
  std::int64_t sync_every = 0;
  /// UTF-8 JSON: what a replay must have in common with this run. Compared by whoever replays.
  std::string identity = "{}";
  std::array<std::uint8_t, 16> run_id = random_run_id();
  /// What a disk that is full, or fails, costs: false, the run; true, the rest of the recording.
  bool go_on_unrecorded = false;
};

class Recorder final : public Director {
 public:
  /// Creates the file for runs of `plan`. `inner`: null for a live run, with the policy that the plan
  /// names. Throws RecordingError: for a file that exists, a folder that
  /// cannot be written, a full disk.
  Recorder(std::string path, const Plan& plan, std::shared_ptr<Director> inner,
           RecorderOptions options = {});
  /// Closes the file if that has not been done, and keeps quiet about it.
  ~Recorder() override;

  /// Throws RecordingError before a step that the disk has no room for, and std::logic_error for a
  /// plan of another shape, or a step that does not follow the last one.
  std::unique_ptr<RankDirector> for_rank(const Plan& plan, RankId rank, std::int64_t step) override;
  void before_commit(std::int64_t step) override { inner_->before_commit(step); }
  void step_ended(const StepEnd& end) override;

  /// Before the next step the state can be had from a checkpoint. Between steps. Throws RecordingError.
  void add_anchor(const RecordedAnchor& anchor);

  /// Ends the recording in good order. Between steps; nothing may run afterwards. Throws RecordingError.
  void close();

  /// Why the recording ends before the run does, if it does.
  const std::optional<RecordingError>& failure() const { return failure_; }

 private:
  struct RankState {
    std::optional<PlannedOrder> order;  // as last written
    std::uint64_t order_page = 0;       // of the stream: where it was written
    std::int64_t step = -1;             // as last begun
    std::int64_t lines = 0;             // of the text log, so far
  };
  class Rank;

  void begin(const Plan& plan, std::int64_t step);
  bool order_is_out_of_reach(RankId rank) const;
  void write_order(RankId rank, const std::vector<Action>& actions);
  void write_end(const StepEnd& end);
  void sync();

  std::shared_ptr<Director> inner_;
  RecorderOptions options_;
  int stages_ = 0;
  std::uint32_t ring_pages_ = 0;
  std::vector<RankState> ranks_;
  std::unique_ptr<RecordingWriter> writer_;
  std::optional<RecordingError> failure_;
};

}  // namespace sluice::replay
