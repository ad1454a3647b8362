#include <sluice/replay/recording_header.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <random>
#include <stdexcept>

#include <fmt/format.h>

#include <sluice/replay/crc32c.hpp>
#include <sluice/replay/recording_error.hpp>
#include <sluice/replay/recording_format.hpp>

namespace sluice::replay {

std::array<std::uint8_t, 16> random_run_id() {
  std::random_device random;
  std::array<std::uint8_t, 16> id{};
  for (auto& byte : id) byte = static_cast<std::uint8_t>(random());
  return id;
}

namespace format {
namespace {

using Page = std::span<const std::byte>;

constexpr std::uint32_t most_slots = std::numeric_limits<std::int32_t>::max();

std::size_t pages_of(std::size_t bytes) { return (bytes + page_size - 1) / page_size; }

std::uint32_t checksum(Page page) {
  std::vector<std::byte> copy(page.begin(), page.end());
  put<std::uint32_t>(copy.data() + header::crc, 0);
  return crc32c(copy);
}

bool has_magic(Page page) {
  return std::memcmp(page.data() + header::magic, magic.data(), magic.size()) == 0;
}

[[noreturn]] void fail(RecordingError::Kind kind, const std::string& file, std::uint64_t offset,
                       std::string what, std::string expected, std::string found,
                       std::string advice) {
  throw RecordingError(kind, {file, offset, std::move(what), std::move(expected), std::move(found),
                              std::move(advice)});
}

/// The header page that can be trusted.
Page intact_copy(std::span<const std::byte> bytes, const std::string& file,
                 std::vector<std::string>& remarks) {
  std::optional<Page> intact;
  bool ours = false;
  for (std::size_t copy = 0; copy < header::copies; ++copy) {
    const Page page = bytes.subspan(copy * page_size, page_size);
    ours = ours || has_magic(page);
    if (has_magic(page) && checksum(page) == get<std::uint32_t>(page.data() + header::crc)) {
      if (!intact) intact = page;
    } else {
      remarks.push_back(fmt::format("copy {} of the header is damaged; read from the other", copy));
    }
  }
  if (intact) return *intact;
  if (!ours) {
    fail(RecordingError::Kind::not_a_recording, file, 0, "the first bytes", "a sluice recording",
         "something else", "name a file that a run wrote with recording on");
  }
  fail(RecordingError::Kind::damaged, file, 0, "the header", "one of two copies with its checksum",
       "both damaged", "restore the file from a copy");
}

void check_version(Page page, const std::string& file) {
  const auto major = get<std::uint16_t>(page.data() + header::major_version);
  const auto minor = get<std::uint16_t>(page.data() + header::minor_version);
  if (major != major_version) {
    fail(RecordingError::Kind::unsupported, file, header::major_version, "the format version",
         fmt::format("{}.x", major_version), fmt::format("{}.{}", major, minor),
         fmt::format("read it with a build whose format version is {}.{} or later", major, minor));
  }
  const auto required = get<std::uint64_t>(page.data() + header::required_features);
  const std::uint64_t unknown = required & ~known_features;
  if (unknown != 0) {
    std::string bits;
    for (int bit = 0; bit < 64; ++bit) {
      if ((unknown >> bit & 1) != 0) bits += fmt::format("{}{}", bits.empty() ? "" : ", ", bit);
    }
    fail(RecordingError::Kind::unsupported, file, header::required_features,
         "the features it requires", "none that this build does not know",
         fmt::format("feature bits {}", bits),
         fmt::format("read it with a build whose format version is {}.{} or later", major, minor));
  }
}

RecordingHeader fields_of(Page page, const std::string& file) {
  RecordingHeader result;
  result.major_version = get<std::uint16_t>(page.data() + header::major_version);
  result.minor_version = get<std::uint16_t>(page.data() + header::minor_version);
  std::memcpy(result.run_id.data(), page.data() + header::run_id, result.run_id.size());
  const auto ranks = get<std::uint32_t>(page.data() + header::ranks);
  const auto stages = get<std::uint32_t>(page.data() + header::stages);
  const auto mode = std::to_integer<std::uint8_t>(page[header::mode]);
  if (ranks < 1 || ranks > most_ranks || stages < ranks || stages > most_ranks) {
    fail(RecordingError::Kind::damaged, file, header::ranks, "ranks and stages",
         fmt::format("1 <= ranks <= stages <= {}", most_ranks),
         fmt::format("{} ranks, {} stages", ranks, stages), "");
  }
  if (mode < static_cast<std::uint8_t>(RecordingMode::full) ||
      mode > static_cast<std::uint8_t>(RecordingMode::ring)) {
    fail(RecordingError::Kind::damaged, file, header::mode, "the mode",
         "1 (full), 2 (verify) or 3 (ring)", fmt::format("{}", mode), "");
  }
  const bool ring =
      (get<std::uint64_t>(page.data() + header::required_features) & feature_ring) != 0;
  if (ring) result.ring_pages = get<std::uint32_t>(page.data() + header::ring_pages);
  if (ring != (mode == static_cast<std::uint8_t>(RecordingMode::ring)) ||
      ring != (result.ring_pages > 0)) {
    fail(RecordingError::Kind::damaged, file, header::ring_pages, "the pages of a ring",
         "some in mode 3 (ring), none in another", fmt::format("{}", result.ring_pages), "");
  }
  const bool limited =
      (get<std::uint64_t>(page.data() + header::required_features) & feature_slots) != 0;
  const auto slots = get<std::uint32_t>(page.data() + header::slots);
  if (limited != (slots > 0) || slots > most_slots + 1) {
    fail(RecordingError::Kind::damaged, file, header::slots, "the slots",
         "a number where they are limited, none elsewhere", fmt::format("{}", slots), "");
  }
  if (limited) result.slots = static_cast<int>(slots - 1);
  result.ranks = static_cast<int>(ranks);
  result.stages = static_cast<int>(stages);
  result.mode = static_cast<RecordingMode>(mode);
  return result;
}

}  // namespace

std::vector<std::byte> encode_header(const RecordingHeader& given) {
  if (given.ranks < 1 || given.stages < given.ranks ||
      given.stages > static_cast<int>(most_ranks)) {
    throw std::invalid_argument(fmt::format(
        "a recording needs 1 <= ranks <= stages <= {}, was given {} ranks and {} stages",
        most_ranks, given.ranks, given.stages));
  }
  const bool ring = given.mode == RecordingMode::ring;
  if (ring != (given.ring_pages > 0)) {
    throw std::invalid_argument("a ring needs pages, and nothing else has them");
  }
  if (given.slots && *given.slots < 0) {
    throw std::invalid_argument(fmt::format("{} slots; a recording needs 0 or more", *given.slots));
  }
  const std::size_t identity = header::copies * page_size;
  const std::size_t identity_pages = pages_of(given.identity.size()) * page_size;
  std::vector<std::byte> bytes(identity + identity_pages);
  std::memcpy(bytes.data() + identity, given.identity.data(), given.identity.size());

  std::byte* page = bytes.data();
  std::memcpy(page + header::magic, magic.data(), magic.size());
  put(page + header::major_version, major_version);
  put(page + header::minor_version, minor_version);
  put<std::uint64_t>(page + header::required_features,
                     (ring ? feature_ring : 0) | (given.slots ? feature_slots : 0));
  std::memcpy(page + header::run_id, given.run_id.data(), given.run_id.size());
  put(page + header::ranks, static_cast<std::uint32_t>(given.ranks));
  put(page + header::stages, static_cast<std::uint32_t>(given.stages));
  put(page + header::identity_size, static_cast<std::uint32_t>(given.identity.size()));
  put(page + header::identity_crc, crc32c(std::span(bytes).subspan(identity, identity_pages)));
  put(page + header::mode, static_cast<std::uint8_t>(given.mode));
  put(page + header::ring_pages, given.ring_pages);
  put(page + header::slots,
      given.slots ? static_cast<std::uint32_t>(*given.slots) + 1 : std::uint32_t{0});
  put(page + header::crc, checksum(Page(page, page_size)));
  std::memcpy(page + page_size, page, page_size);
  return bytes;
}

DecodedHeader decode_header(std::span<const std::byte> bytes, const std::string& file) {
  const std::size_t identity = header::copies * page_size;
  if (bytes.size() < identity) {
    const bool ours = bytes.size() >= magic.size() && has_magic(bytes);
    fail(ours ? RecordingError::Kind::damaged : RecordingError::Kind::not_a_recording, file,
         bytes.size(), "the end of the file", fmt::format("a header of {} bytes", identity),
         fmt::format("{} bytes", bytes.size()),
         ours ? "the file was cut; restore it from a copy"
              : "name a file that a run wrote with recording on");
  }
  DecodedHeader result;
  const Page page = intact_copy(bytes, file, result.remarks);
  check_version(page, file);
  result.header = fields_of(page, file);

  const auto size = get<std::uint32_t>(page.data() + header::identity_size);
  const std::size_t padded = pages_of(size) * page_size;
  if (bytes.size() - identity < padded) {
    fail(RecordingError::Kind::damaged, file, bytes.size(), "the end of the file",
         fmt::format("{} bytes of identity", size),
         fmt::format("{} bytes of it", bytes.size() - identity),
         "the file was cut; restore it from a copy");
  }
  const Page blob = bytes.subspan(identity, padded);
  const auto recorded = get<std::uint32_t>(page.data() + header::identity_crc);
  if (const auto found = crc32c(blob); found != recorded) {
    fail(RecordingError::Kind::damaged, file, identity, "the checksum of the identity",
         fmt::format("{:08x}", recorded), fmt::format("{:08x}", found),
         "restore the file from a copy");
  }
  result.header.identity.assign(reinterpret_cast<const char*>(blob.data()), size);
  result.first_page = header::copies + padded / page_size;
  return result;
}

}  // namespace format
}  // namespace sluice::replay
