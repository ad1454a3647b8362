#include <sluice/kernels/hash.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::kernels {

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

}  // namespace sluice::kernels
