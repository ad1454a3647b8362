// Unpacker: what a gzipped or zstd-compressed file says, as its bytes come.
//
// LogInput feeds it what it has read and takes what that unpacks to a bounded piece at a time, so that
// a small file that unpacks to a large one takes no more memory than a plain one. Files that were
// appended to each other, and files cut short, are read as far as they go. One caller at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace sluice::tools {

class Unpacker {
 public:
  /// Bytes that tell how a file is compressed.
  static constexpr std::size_t head = 4;

  virtual ~Unpacker() = default;

  /// Takes the next bytes of the file. Requires that all before have been unpacked.
  virtual void feed(std::string packed) = 0;
  /// The next piece in place of `bytes`; false when more has to be fed first. Throws UsageError where
  /// the file is damaged.
  virtual bool unpack(std::string& bytes) = 0;
};

/// For a file that begins like `first`; nothing when it is not compressed. `name` is for messages.
std::unique_ptr<Unpacker> unpacker_for(std::string_view first, const std::string& name);

}  // namespace sluice::tools
