// IDX: the file format of the MNIST family, gzipped, read strictly.
//
// Called by data set loaders, and by a fuzzer: everything also reads from memory. What does not
// agree with the format to the last byte is refused, with one message that says file, expected,
// found and what to do. Stateless; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::kernels {

/// A data file that is missing, unreadable or not what it should be.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A whole file in memory. `advice` closes the message when it cannot be read. Throws DataError.
std::vector<std::uint8_t> read_file(const std::filesystem::path& path, std::string_view advice);

/// An array of unsigned bytes, outermost dimension first.
struct Idx {
  std::vector<std::int64_t> dims;
  std::vector<std::uint8_t> bytes;  ///< as many as the product of dims
};

/// Reads a gzipped IDX file of unsigned bytes with `rank` dimensions, none of them 0. `name` stands
/// for the file in messages. Memory is bounded by what the header promises, whatever the compressed
/// data holds. Throws DataError.
Idx parse_idx_gz(std::span<const std::uint8_t> gzipped, std::size_t rank, std::string_view name);

}  // namespace sluice::kernels
