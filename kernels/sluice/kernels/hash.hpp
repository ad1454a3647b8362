// The one hash of this library's data: XXH3, 64 bits. Stateless; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

/// Of `bytes` bytes. Chain several by giving one's hash as the next one's seed.
std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0) noexcept;

}  // namespace sluice::kernels
