// The header of a recording: which run this is, and what its replay must have in common with it.
//
// Written once, before the run, as two copies, so that one bad block does not cost the recording.
// Plain values; any executor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::replay {

enum class RecordingMode : std::uint8_t {
  full = 1,  ///< every action
  verify =
      2,  ///< and a 64-bit hash of every value that leaves a rank, and of the weights once a step
  ring = 3,  ///< every action, the newest alone: what is older falls off
};

struct RecordingHeader {
  std::uint16_t major_version = 0;
  std::uint16_t minor_version = 0;
  std::array<std::uint8_t, 16> run_id{};
  int ranks = 0;
  int stages = 0;
  RecordingMode mode = RecordingMode::verify;
  /// Of each stream at most; 0 unless the mode is `ring`.
  std::uint32_t ring_pages = 0;
  /// How many values may wait between two neighbouring stages, where that was limited.
  std::optional<int> slots;
  /// What a replay must have in common with the run (build, compiler, instruction set, threads,
  /// configuration, model, seed), as UTF-8 JSON. The library carries it and does not look inside.
  std::string identity;
};

/// Sixteen random bytes.
std::array<std::uint8_t, 16> random_run_id();

namespace format {

/// The first pages of a file: header, its copy, identity.
std::vector<std::byte> encode_header(const RecordingHeader& header);

struct DecodedHeader {
  RecordingHeader header;
  std::size_t first_page = 0;        ///< of the record pages
  std::vector<std::string> remarks;  ///< damage that cost nothing
};

/// Reads them back. `file` is for messages. Throws RecordingError.
DecodedHeader decode_header(std::span<const std::byte> bytes, const std::string& file);

}  // namespace format
}  // namespace sluice::replay
