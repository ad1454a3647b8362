// LogInput: the bytes of one log for sluice check, wherever they are.
//
// A file, standard input (`-`), either of them compressed (gzip, zstd), or a recording, whose events
// it writes as the lines that the run's text log would have had. Reads piece by piece, so that a log
// of any length takes the same memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <sluice/replay/recording.hpp>

#include "unpacker.hpp"

namespace sluice::tools {

class LogInput {
 public:
  /// Throws UsageError when it cannot be opened, RecordingError for a recording that is damaged.
  explicit LogInput(const std::string& path);

  const std::string& name() const { return name_; }

  /// The next piece in place of `bytes`; false at the end. After the end of a file that has grown
  /// since it goes on. Throws UsageError.
  bool read(std::string& bytes);
  /// Step and text when the piece was a recorded step that did not end well: how it ended.
  const std::optional<std::pair<std::int64_t, std::string>>& step_end() const { return step_end_; }

  /// So that rewind() can follow. What cannot be read twice is copied to a temporary file first.
  void keep();
  /// Begins again at the first byte. Requires keep() before the first read().
  void rewind();

  /// Whether the file is still where it was opened.
  bool exists() const { return std::filesystem::exists(name_); }

 private:
  class File {
   public:
    explicit File(int descriptor) : descriptor_(descriptor) {}
    File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    File& operator=(File&& other) noexcept {
      std::swap(descriptor_, other.descriptor_);
      return *this;
    }
    ~File();

    int get() const { return descriptor_; }

   private:
    int descriptor_;
  };

  std::size_t read_file(char* to, std::size_t room);
  bool read_step(std::string& bytes);
  [[noreturn]] void cannot_be_read() const;

  std::string name_;
  File file_{-1};
  bool begun_ = false;
  std::unique_ptr<Unpacker> unpacker_;  // none for a plain file
  std::shared_ptr<const replay::Recording> recording_;
  std::string fault_;  // of the recording's file
  std::size_t next_step_ = 0;
  std::optional<std::pair<std::int64_t, std::string>> step_end_;
};

}  // namespace sluice::tools
