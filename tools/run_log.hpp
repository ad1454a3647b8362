// RunLog: the text log of a run, written at the end of each step, whether it succeeded or not.
//
// One file for the run, or a folder with one file a stage. `seq` starts at 1, is global and gap-free,
// and goes on over steps. Used by whoever runs the steps, one call at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <sluice/event.hpp>

#include "output_file.hpp"

namespace sluice::tools {

class RunLog {
 public:
  /// A path that is a folder, or ends in a slash, gets one file a stage. An old log makes way, and nothing
  /// else. Throws UsageError.
  RunLog(const std::filesystem::path& path, int stages);

  /// One step's events, in causal order. Throws UsageError when they cannot be written; a file then ends
  /// with the step before.
  void write(std::span<const Event> events);

 private:
  struct File {
    OutputFile out;
    std::string pending = {};
  };

  std::vector<File> files_;  // one, or one a stage
  std::int64_t seq_ = 0;
  std::int64_t start_ns_ = 0;
};

}  // namespace sluice::tools
