// Reads a recording's file.
//
// Everything is checked when it is opened: checksums, and that every record makes sense where it
// stands. What follows can be trusted. A file that ends early, because its writer was killed or because
// it was cut, is read up to its end; a file that was changed is refused. An immutable value afterwards,
// shared by any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/event.hpp>
#include <sluice/ids.hpp>
#include <sluice/replay/rank_records.hpp>
#include <sluice/replay/record_pages.hpp>
#include <sluice/replay/recorded_facts.hpp>
#include <sluice/replay/recording_error.hpp>
#include <sluice/replay/recording_header.hpp>

namespace sluice::replay {

struct RecordedStep {
  std::int64_t number = 0;
  /// Per rank in its own order; `time_ns` is not recorded.
  std::vector<std::vector<Event>> ranks;
  /// Per rank, in the order in which its actions read them.
  std::vector<std::vector<RecordedOutside>> outside;
  /// Per rank, the values that its actions were given: those of an action that failed, or all of them
  /// where the recorder was asked for that. Their bytes lie in the recording, which must outlive them.
  std::vector<std::vector<RecordedInbound>> inbound;
  /// False: the recording ends here, inside this step. What is there is causally closed: every action
  /// whose output was taken is there.
  bool complete = false;
  std::string error;                     ///< of a complete step; empty when its update was applied
  std::optional<RecordedResult> result;  ///< of a complete step without an error
  std::int64_t first_seq = 1;            ///< of its first line in the text log
};

class Recording {
 public:
  /// Throws RecordingError.
  static std::shared_ptr<const Recording> open(const std::string& path);
  /// `name` is for messages. Throws RecordingError.
  static std::shared_ptr<const Recording> parse(std::vector<std::byte> bytes, std::string name);

  const std::string& file() const { return file_; }
  const RecordingHeader& header() const { return header_; }
  /// Its writer ended in good order, and nothing has been cut off since.
  bool closed() const { return closed_; }
  /// Damage that cost nothing, for a human.
  const std::vector<std::string>& remarks() const { return remarks_; }
  /// The run began before the recording does: the start has fallen off a ring. Only the schedule can
  /// be replayed, or the numbers from one of the `anchors`.
  bool begins_late() const;
  /// From which the steps can be run again, in ascending order; the first is the state with which the run
  /// began. Of a ring some have fallen off, or the steps behind them have: those are not here, and where
  /// none is left only the order can be replayed.
  const std::vector<RecordedAnchor>& anchors() const { return anchors_; }

  /// How many steps there are, the one in which the recording ends included.
  std::size_t steps() const { return first_seqs_.size(); }
  /// Number of the first step.
  std::int64_t first_step() const;
  RecordedStep step(std::size_t index) const;
  /// Of the first line of a step in the text log; the step itself is not read for it.
  std::int64_t first_seq(std::size_t index) const { return first_seqs_.at(index); }
  /// The planned order of `rank` in a step; empty when the recording ends before it.
  std::vector<Action> order(RankId rank, std::size_t step = 0) const;

 private:
  struct StepEnd {
    std::int64_t number = 0;
    std::string error;
    std::optional<RecordedResult> result;
    std::optional<std::int64_t> lines;  // of the log, up to its end
  };

  Recording(std::vector<std::byte> bytes, std::string name);
  void read_run(const format::StreamPages& stream, std::size_t pages);
  void add_to_run(const format::Record& record, std::size_t offset);
  void drop_what_others_lost();
  void index_steps();
  std::int64_t lines_before(std::size_t complete) const;
  bool is_complete(std::size_t step) const;
  std::vector<RankId> ranks_of_stages(std::size_t step) const;

  std::string file_;
  std::vector<std::byte> bytes_;
  RecordingHeader header_;
  std::vector<std::string> remarks_;
  std::vector<RankRecords> ranks_;
  std::vector<StepEnd> ends_;
  std::vector<RecordedAnchor> anchors_;
  bool closed_ = false;
  bool run_begins_late_ = false;
  std::vector<std::int64_t> first_seqs_;  // per step
};

}  // namespace sluice::replay
