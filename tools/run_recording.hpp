// RunRecording: the recording of one training run, as [record] asks for it.
//
// Without a word from the user it is a ring in the folder that the command was started in, which is
// removed when the run ends well: whoever's run fails, or is killed, has its last events all the same.
// That one never costs a run: where it cannot be written, a warning says so. Used by `train`.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <sluice/director.hpp>
#include <sluice/kernels/data_set.hpp>
#include <sluice/plan.hpp>
#include <sluice/replay/recorder.hpp>

#include "config.hpp"

namespace sluice::tools {

class RunRecording {
 public:
  /// `inner` decides. Throws RecordingError when a recording that was asked for cannot be written,
  /// unless [record] on_error says to go on, and UsageError for one that was asked for and switched off.
  RunRecording(const Config& config, const std::filesystem::path& file, const Plan& plan,
               const kernels::DataSet& data, std::shared_ptr<Director> inner);

  /// Whom to give to the pipeline.
  std::shared_ptr<Director> director() const;

  /// The run has ended. What the recording has to say of it is added to `failure`, which is empty when
  /// all went well.
  void end(std::string& failure);

  /// Where the recording is; nothing when there is none to keep.
  const std::optional<std::string>& kept() const { return kept_; }

 private:
  std::shared_ptr<Director> inner_;
  std::shared_ptr<replay::Recorder> recorder_;
  bool asked_for_ = false;
  bool go_on_ = false;
  std::optional<std::string> kept_;
};

}  // namespace sluice::tools
