// CRC32C, the checksum of every page and header of a recording.
//
// Stateless; any thread. Detects every error burst of up to 32 bits, hence every changed byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::replay {

std::uint32_t crc32c(std::span<const std::byte> bytes);

/// The same without the processor's help: what `crc32c` is where there is none.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes);

}  // namespace sluice::replay
