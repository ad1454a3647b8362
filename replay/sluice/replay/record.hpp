// One record, as its bytes say: the framing alone, for known and unknown kinds.
//
// Pure functions over a file's bytes; any executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <sluice/replay/recording_format.hpp>

namespace sluice::replay::format {

struct Record {
  const KindRow* row = nullptr;      ///< null: of a later version, to be skipped
  std::uint64_t number = 0;          ///< of Wire::number and Wire::hash
  std::span<const std::byte> bytes;  ///< of Wire::bytes
  std::size_t end = 0;               ///< where the next record starts
};

/// The record at `offset`, which ends at `limit` at the latest; nothing where there is no whole one.
inline std::optional<Record> take_record(std::span<const std::byte> file, std::size_t offset,
                                         std::size_t limit, std::uint8_t epoch) {
  std::span<const std::byte> rest = file.subspan(offset, limit - offset);
  if (rest.empty()) return std::nullopt;
  const auto tag = std::to_integer<std::uint8_t>(rest.front());
  rest = rest.subspan(1);
  if ((tag & 0x3F) == 0) return std::nullopt;

  Record record;
  record.row = row_of(tag);
  switch (static_cast<Wire>(tag >> 6)) {
    case Wire::none: break;
    case Wire::number:
      if (!take_varint(rest, record.number)) return std::nullopt;
      break;
    case Wire::bytes: {
      std::uint64_t size = 0;
      if (!take_varint(rest, size) || size > rest.size()) return std::nullopt;
      record.bytes = rest.first(size);
      rest = rest.subspan(size);
      break;
    }
    case Wire::hash:
      if (rest.size() < sizeof record.number) return std::nullopt;
      record.number = get<std::uint64_t>(rest.data());
      rest = rest.subspan(sizeof record.number);
      break;
  }
  if (rest.empty() || rest.front() != commit_of(epoch)) return std::nullopt;
  record.end = limit - rest.size() + 1;
  return record;
}

}  // namespace sluice::replay::format
