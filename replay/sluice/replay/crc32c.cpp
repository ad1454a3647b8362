#include <sluice/replay/crc32c.hpp>

#include <cstring>

#include <boost/crc.hpp>

namespace sluice::replay {

std::uint32_t crc32c_portable(std::span<const std::byte> bytes) {
  // Castagnoli's polynomial; reflected, and inverted before and after.
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

namespace {

#ifdef __x86_64__

/// The processor's own instruction: a page in half a microsecond instead of ten.
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::span<const std::byte> bytes) {
  std::uint64_t crc = 0xFFFFFFFF;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, bytes.data(), 8);
    crc = __builtin_ia32_crc32di(crc, eight);
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (const std::byte byte : bytes) {
    rest = __builtin_ia32_crc32qi(rest, std::to_integer<std::uint8_t>(byte));
  }
  return ~rest;
}

#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
#ifdef __x86_64__
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return by_instruction(bytes);
#endif
  return crc32c_portable(bytes);
}

}  // namespace sluice::replay
