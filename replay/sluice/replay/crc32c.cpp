#include <sluice/replay/crc32c.hpp>

#include <boost/crc.hpp>

namespace sluice::replay {

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  // Castagnoli's polynomial; reflected, and inverted before and after.
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

}  // namespace sluice::replay
