// A recording as the command takes it: opened and checked, every fault one clear message.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/replay/recording.hpp>

#include "case_file.hpp"

namespace sluice::tools {

struct RecordingFile {
  std::shared_ptr<const replay::Recording> recording;
  /// What has happened to the file since it was written and did not make it unreadable: it was cut
  /// short, or one of two copies is damaged. A run that was killed leaves no closing record either, but
  /// whole pages and the open ones it was writing to: that is no fault of the file.
  std::vector<std::string> faults;
  /// The case file that it came in, with the data of its run.
  std::shared_ptr<const Case> of_case;
};

/// A recording, or the case file that holds one. Throws RecordingError for what is not as it was written,
/// DataError and UsageError for what cannot be read.
RecordingFile open_recording(const std::filesystem::path& path);

/// Whether it is a regular file that begins as a recording does, whole or not.
bool is_recording(const std::filesystem::path& path);

/// Throws UsageError when `rank`, as --rank gives it, is none of the recording's.
void check_rank(const replay::Recording& recording, std::optional<int> rank);

}  // namespace sluice::tools
