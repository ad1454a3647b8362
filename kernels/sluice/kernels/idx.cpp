#include <sluice/kernels/idx.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <zlib.h>

namespace sluice::kernels {
namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view expected, std::string_view found,
                         std::string_view advice) {
  throw DataError(fmt::format("{}: expected {}, found {}; {}", name, expected, found, advice));
}

constexpr std::string_view fetch_again = "the file is damaged or of another kind, fetch it again";

/// Bytes out of a gzip member, in order, and not one more than asked for.
class Gunzip {
 public:
  Gunzip(std::span<const std::uint8_t> gzipped, std::string_view name) : name_(name) {
    if (gzipped.size() > std::numeric_limits<uInt>::max()) {
      refuse(name_, "less than 4 GiB of compressed data", fmt::format("{} bytes", gzipped.size()),
             fetch_again);
    }
    stream_.next_in = const_cast<Bytef*>(gzipped.data());
    stream_.avail_in = static_cast<uInt>(gzipped.size());
    constexpr int gzip_only = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, gzip_only) != Z_OK) throw std::bad_alloc();
  }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;
  ~Gunzip() { inflateEnd(&stream_); }

  /// Fills `out`, or as much of it as there is; returns how much.
  std::size_t read(std::span<std::uint8_t> out) {
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      const std::size_t want =
          std::min<std::size_t>(out.size() - done, std::numeric_limits<uInt>::max());
      stream_.next_out = out.data() + done;
      stream_.avail_out = static_cast<uInt>(want);
      const int result = inflate(&stream_, Z_NO_FLUSH);
      done += want - stream_.avail_out;
      if (result == Z_STREAM_END) {
        ended_ = true;
      } else if (result == Z_BUF_ERROR ||
                 (result == Z_OK && stream_.avail_in == 0 && stream_.avail_out > 0)) {
        refuse(name_, "a whole gzip file", "that it ends in the middle", fetch_again);
      } else if (result != Z_OK) {
        refuse(name_, "gzip data",
               stream_.msg != nullptr ? stream_.msg : fmt::format("zlib error {}", result),
               fetch_again);
      }
    }
    return done;
  }

  std::size_t bytes_behind() const { return stream_.avail_in; }

 private:
  z_stream stream_{};
  std::string_view name_;
  bool ended_ = false;
};

std::int64_t big_endian(std::span<const std::uint8_t> bytes) {
  std::int64_t value = 0;
  for (const std::uint8_t byte : bytes) value = value * 256 + byte;
  return value;
}

/// The dimensions, checked; their product fits in memory sizes.
std::vector<std::int64_t> parse_header(Gunzip& data, std::size_t rank, std::string_view name) {
  std::vector<std::uint8_t> header(4 + 4 * rank);
  const std::size_t got = data.read(header);
  if (got >= 4) {
    const std::span magic(header.data(), 4);
    if (magic[0] != 0 || magic[1] != 0) {
      refuse(name, "an IDX file, which starts with two zero bytes",
             fmt::format("{:#04x} {:#04x}", magic[0], magic[1]), fetch_again);
    }
    if (magic[2] != 0x08) {
      refuse(name, "elements of type 0x08 (unsigned byte)", fmt::format("{:#04x}", magic[2]),
             "convert the file to unsigned bytes");
    }
    if (magic[3] != rank) {
      refuse(name, fmt::format("{} dimensions", rank), fmt::format("{}", magic[3]),
             "images have 3 dimensions and labels have 1: check that the two are not swapped");
    }
  }
  if (got < header.size()) {
    refuse(name, fmt::format("a header of {} bytes", header.size()),
           fmt::format("{} bytes in all", got), fetch_again);
  }

  std::vector<std::int64_t> dims;
  std::int64_t room = std::numeric_limits<std::int64_t>::max();
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t size = big_endian(std::span(header).subspan(4 + 4 * axis, 4));
    if (size == 0 || room / size == 0) {
      refuse(name, fmt::format("dimension {} to be at least 1 and to fit in memory", axis),
             fmt::format("{}", size), fetch_again);
    }
    room /= size;
    dims.push_back(size);
  }
  return dims;
}

}  // namespace

std::vector<std::uint8_t> read_file(const std::filesystem::path& path, std::string_view advice) {
  const auto fail = [&]() {
    refuse(path.string(), "a readable file", std::strerror(errno), advice);
  };
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (!file) fail();
  std::vector<std::uint8_t> bytes;
  constexpr std::size_t chunk = std::size_t{1} << 20;
  std::size_t got = chunk;
  while (got == chunk) {
    const std::size_t before = bytes.size();
    bytes.resize(before + chunk);
    got = std::fread(bytes.data() + before, 1, chunk, file.get());
    bytes.resize(before + got);
  }
  if (std::ferror(file.get()) != 0) fail();
  return bytes;
}

Idx parse_idx_gz(std::span<const std::uint8_t> gzipped, std::size_t rank, std::string_view name) {
  Gunzip data(gzipped, name);
  Idx idx;
  idx.dims = parse_header(data, rank, name);
  std::int64_t promised = 1;
  for (const std::int64_t size : idx.dims) promised *= size;

  // Piece by piece: a false promise must not cost memory that the data does not fill.
  constexpr std::int64_t piece = std::int64_t{1} << 24;
  while (static_cast<std::int64_t>(idx.bytes.size()) < promised) {
    const std::size_t before = idx.bytes.size();
    const auto want = std::min(piece, promised - static_cast<std::int64_t>(before));
    idx.bytes.resize(before + static_cast<std::size_t>(want));
    const std::size_t got = data.read(std::span(idx.bytes).subspan(before));
    if (static_cast<std::int64_t>(got) < want) {
      refuse(name, fmt::format("{} elements, as its header says", promised),
             fmt::format("{}", before + got), fetch_again);
    }
  }
  std::uint8_t surplus = 0;  // also makes zlib read on to the checksum
  if (data.read(std::span(&surplus, 1)) != 0) {
    refuse(name, fmt::format("{} elements, as its header says", promised), "more behind them",
           fetch_again);
  }
  if (data.bytes_behind() != 0) {
    refuse(name, "nothing behind the gzip data", fmt::format("{} more bytes", data.bytes_behind()),
           fetch_again);
  }
  return idx;
}

}  // namespace sluice::kernels
