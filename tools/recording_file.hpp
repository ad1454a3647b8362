// A recording as the command takes it: opened and checked, every fault one clear message.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/replay/recording.hpp>

namespace sluice::tools {

struct RecordingFile {
  std::shared_ptr<const replay::Recording> recording;
  /// What has happened to the file since it was written and did not make it unreadable: it was cut
  /// short, or one of two copies is damaged. A run that was killed leaves no closing record either, but
  /// whole pages and the open ones it was writing to: that is no fault of the file.
  std::vector<std::string> faults;
  /// Where its data are, when it came in a case file; there until the last copy of this has gone.
  std::optional<std::filesystem::path> data;
  std::shared_ptr<const void> unpacked;
};

/// A recording, or the case file that holds one (case_file.hpp). Throws RecordingError for what is not as it was written, DataError for what cannot be read.
RecordingFile open_recording(const std::filesystem::path& path);

}  // namespace sluice::tools
