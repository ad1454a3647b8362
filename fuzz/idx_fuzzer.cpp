// Any bytes as a data file: as they are, and gzipped, because random bytes end at the first check of the
// compression. The reader refuses them with a message, or what it has read is as large as it says.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include <zlib.h>

#include <sluice/kernels/idx.hpp>

namespace {

using namespace sluice::kernels;

void require(bool holds) {
  if (!holds) std::abort();
}

void read(std::span<const std::uint8_t> gzipped) {
  for (const std::size_t rank : {1U, 3U}) {
    try {
      const Idx idx = parse_idx_gz(gzipped, rank, "fuzzed");
      std::size_t size = 1;
      for (const std::int64_t dim : idx.dims) size *= static_cast<std::size_t>(dim);
      require(idx.dims.size() == rank && idx.bytes.size() == size);
    } catch (const DataError& error) {
      require(std::strlen(error.what()) > 0);
    }
  }
}

std::vector<std::uint8_t> gzipped(std::span<const std::uint8_t> bytes) {
  constexpr int with_gzip_header = 16 + MAX_WBITS;
  z_stream stream{};
  require(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, with_gzip_header, 8,
                       Z_DEFAULT_STRATEGY) == Z_OK);
  std::vector<std::uint8_t> result(deflateBound(&stream, static_cast<uLong>(bytes.size())));
  std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
  stream.next_in = input.data();
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = result.data();
  stream.avail_out = static_cast<uInt>(result.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span input(data, size);
  read(input);
  read(gzipped(input));
  return 0;
}
