#include <sluice/replay/record_pages.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sluice/replay/crc32c.hpp>
#include <sluice/replay/recording_error.hpp>

namespace sluice::replay::format {
namespace {

using Bytes = std::span<const std::byte>;

class PageReader {
 public:
  PageReader(Bytes bytes, int ranks, const std::string& file) : bytes_(bytes), file_(file) {
    pages_.streams.resize(static_cast<std::size_t>(ranks) + 1);
    pages_.total = bytes.size() / page_size;
    if (bytes.size() % page_size != 0) {
      pages_.remarks.push_back(fmt::format(
          "the file was cut inside page {}; what is left of it is ignored", pages_.total));
    }
  }

  void read(std::size_t number) {
    number_ = number;
    page_ = bytes_.subspan(number * page_size, page_size);
    const auto magic = get<std::uint32_t>(page_.data() + page::magic);
    if (magic == 0) {  // allocated ahead, or its writer was killed while it took the page
      const Bytes records = page_.subspan(page::records);
      if (std::any_of(records.begin(), records.end(),
                      [](std::byte b) { return b != std::byte{}; })) {
        damaged("its first bytes", fmt::format("{:08x}", page::magic_value), "00000000");
      }
      ++pages_.open;
      return;
    }
    if (magic != page::magic_value) {
      damaged("its first bytes", fmt::format("{:08x}", page::magic_value),
              fmt::format("{:08x}", magic));
    }
    used_ = get<std::uint16_t>(page_.data() + page::used);
    if (used_ != 0) check_sealed();
    epoch_ = std::to_integer<std::uint8_t>(page_[page::epoch]);
    if (epoch_ < 1 || epoch_ > 127) damaged("its epoch", "1 to 127", fmt::format("{}", epoch_));
    if (const auto own = get<std::uint32_t>(page_.data() + page::number); own != number) {
      damaged("its number", fmt::format("{}", number), fmt::format("{}", own));
    }
    add_records(stream());
  }

  RecordPages take() { return std::move(pages_); }

 private:
  [[noreturn]] void damaged(const std::string& what, std::string expected, std::string found) {
    throw RecordingError(RecordingError::Kind::damaged,
                         {file_, number_ * page_size, fmt::format("page {}: {}", number_, what),
                          std::move(expected), std::move(found), "restore the file from a copy"});
  }

  void check_sealed() {
    std::vector<std::byte> copy(page_.begin(), page_.end());
    put<std::uint32_t>(copy.data() + page::crc, 0);
    const auto recorded = get<std::uint32_t>(page_.data() + page::crc);
    if (const auto found = crc32c(copy); found != recorded) {
      damaged("its checksum", fmt::format("{:08x}", recorded), fmt::format("{:08x}", found));
    }
    if (used_ < page::records || used_ > page_size) {
      damaged("the end of its records", fmt::format("{} to {}", page::records, page_size),
              fmt::format("{}", used_));
    }
  }

  StreamPages& stream() {
    const auto id = get<std::uint16_t>(page_.data() + page::stream);
    const std::size_t ranks = pages_.streams.size() - 1;
    if (id != run_stream && id >= ranks) {
      damaged("its stream", fmt::format("a rank below {}", ranks), fmt::format("{}", id));
    }
    StreamPages& stream = pages_.streams[id == run_stream ? ranks : id];
    const auto before = get<std::uint64_t>(page_.data() + page::first_record);
    if (before != stream.records) {
      damaged("records of its stream before it", fmt::format("{}", stream.records),
              fmt::format("{}", before));
    }
    return stream;
  }

  void add_records(StreamPages& stream) {
    const std::size_t begin = number_ * page_size + page::records;
    const std::size_t limit = number_ * page_size + (used_ != 0 ? used_ : page_size);
    std::size_t offset = begin;
    while (const auto record = take_record(bytes_, offset, limit, epoch_)) {
      offset = record->end;
      ++stream.records;
    }
    if (used_ == 0) {
      ++pages_.open;
      if (offset < limit && bytes_[offset] != std::byte{0}) {
        pages_.remarks.push_back(
            fmt::format("page {}: the record at offset {} is torn; its stream ends before it",
                        number_, offset));
      }
    } else if (offset != limit) {
      damaged(fmt::format("the record at offset {}", offset), "a whole record", "something else");
    }
    stream.pages.push_back({begin, offset, epoch_});
  }

  Bytes bytes_;
  const std::string& file_;
  RecordPages pages_;
  // Of the page at hand:
  std::size_t number_ = 0;
  Bytes page_;
  std::uint16_t used_ = 0;
  std::uint8_t epoch_ = 0;
};

}  // namespace

RecordPages read_pages(Bytes bytes, std::size_t first_page, int ranks, const std::string& file) {
  PageReader reader(bytes, ranks, file);
  for (std::size_t page = first_page; page < bytes.size() / page_size; ++page) reader.read(page);
  return reader.take();
}

}  // namespace sluice::replay::format
