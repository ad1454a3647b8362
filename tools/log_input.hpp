// LogInput: the bytes of one log for sluice check, wherever they are.
//
// A file, standard input (`-`), either of them gzipped, or a recording, whose events it writes as the
// lines that the run's text log would have had. Reads piece by piece, so that a log of any length
// takes the same memory.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <zlib.h>

#include <sluice/replay/recording.hpp>

namespace sluice::tools {

class LogInput {
 public:
  /// Throws UsageError when it cannot be opened, RecordingError for a recording that is damaged.
  explicit LogInput(const std::string& path);

  const std::string& name() const { return name_; }

  /// The next piece in place of `bytes`; false at the end. After the end of a file that has grown
  /// since it goes on. Throws UsageError.
  bool read(std::string& bytes);

  /// Whether the file is still where it was opened.
  bool exists() const { return std::filesystem::exists(name_); }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose_r(file); }
  };

  bool read_step(std::string& bytes);

  std::string name_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::shared_ptr<const replay::Recording> recording_;
  std::size_t next_step_ = 0;
};

}  // namespace sluice::tools
