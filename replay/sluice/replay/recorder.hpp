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
// What a failing action was given is written down as well, where its type can be encoded
// (WireTraits::encode). Its bytes never take the place of the step's own events: in a ring it is saved if
// it fits in a quarter of the ring, else only its size is.
//
// Lives as long as the pipeline. Calls arrive as Director promises them; the rest between steps.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
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
  /// Of each rank, in mode `ring`. More where a few steps would not fit; less on a disk that gets full.
  std::size_t ring_bytes = std::size_t{8} << 20;
  /// Of a ring: every value that an action is given in the last so many steps is saved too. Their bytes
  /// have five eighths of the ring; of a value for which they do not suffice only the size is saved, and
  /// `not_saved` counts it. 0: only those of actions that fail.
  std::int64_t payload_steps = 0;
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

  /// Of how many values only the size was saved. Between steps.
  std::int64_t not_saved() const;

  /// Why the recording ends before the run does, if it does.
  const std::optional<RecordingError>& failure() const { return failure_; }

 private:
  struct RankState {
    std::optional<PlannedOrder> order;  // as last written
    std::uint64_t order_page = 0;       // of the stream: where it was written
    std::int64_t step = -1;             // as last begun
    std::uint64_t first_page = 0;       // of the stream: where the last step began
    std::int64_t lines = 0;             // of the text log, so far
    std::int64_t not_saved = 0;
  };
  class Rank;

  void begin(const Plan& plan, std::int64_t step);
  bool order_is_out_of_reach(RankId rank) const;
  /// Of a stream in a step, inbound values and events before them: beyond it, sizes alone.
  std::size_t inbound_pages() const;
  void write_order(RankId rank, const std::vector<Action>& actions);
  void write_end(const StepEnd& end);
  void sync();
  void write_anchor(const RecordedAnchor& anchor);

  std::shared_ptr<Director> inner_;
  RecorderOptions options_;
  int stages_ = 0;
  bool step_open_ = false;  // begun, and not ended
  std::vector<RankState> ranks_;
  std::unique_ptr<RecordingWriter> writer_;
  std::optional<RecordingError> failure_;
};

}  // namespace sluice::replay
