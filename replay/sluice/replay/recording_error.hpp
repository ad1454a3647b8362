// What is wrong with a recording's file, as the five facts: what, where, expected, found, what to do.
//
// Thrown by the writer and by the reader, on whatever executor calls them. Never thrown for a
// recording that merely ends early: that one is read up to its end.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace sluice::replay {

class RecordingError : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t {
    io,               ///< the system refused: folder, rights, space
    not_a_recording,  ///< the file is something else, or too short to tell
    unsupported,      ///< written in a format that this build does not read
    damaged,          ///< bytes are not as they were written
  };

  struct Facts {
    std::string file;
    std::optional<std::uint64_t> offset;  ///< in bytes from the start of the file
    std::string what;                     ///< `the checksum of page 5`
    std::string expected;
    std::string found;
    std::string advice;  ///< what to change
  };

  RecordingError(Kind kind, Facts facts);

  Kind kind() const { return kind_; }
  const Facts& facts() const { return facts_; }

 private:
  Kind kind_;
  Facts facts_;
};

}  // namespace sluice::replay
