// An old recording that a new one is to replace.
//
// Whoever writes a recording holds a lock on its file, which goes with the process. The recorder's writer
// takes the old one's lock as well, puts the new file in its place, and only then lets go of this: so of
// several who would replace it one does, and the recording of a run that goes on stays. Any thread.
#pragma once

#include <string>

namespace sluice::replay {

/// Locks an open file against other writers. False: another holds the lock. (Where the file system knows
/// no locks nobody is refused.)
bool lock_recording(int file);

class OldRecording {
 public:
  /// Locks what stands at `path`. Throws RecordingError, without having touched it, when that is not a
  /// recording, or one that somebody writes to.
  explicit OldRecording(const std::string& path);
  OldRecording(const OldRecording&) = delete;
  OldRecording& operator=(const OldRecording&) = delete;
  ~OldRecording() { forget(); }

  /// Whether anything stands there.
  bool there() const { return file_ >= 0; }

 private:
  [[noreturn]] void refuse(const std::string& path, std::string expected, std::string found,
                           std::string advice);
  bool is_still_at(const std::string& path) const;
  void forget();

  int file_ = -1;
};

}  // namespace sluice::replay
