#include <sluice/replay/record_pages.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sluice/replay/crc32c.hpp>
#include <sluice/replay/recording_error.hpp>

namespace sluice::replay::format {
namespace {

using Bytes = std::span<const std::byte>;

/// What the header of a record page says.
struct Page {
  std::size_t number = 0;
  std::uint16_t used = 0;  // 0: open
  std::uint8_t epoch = 0;
  std::uint64_t first_record = 0;
};

class PageReader {
 public:
  PageReader(Bytes bytes, int ranks, bool ring, const std::string& file)
      : bytes_(bytes), ring_(ring), file_(file), headers_(static_cast<std::size_t>(ranks) + 1) {
    pages_.streams.resize(headers_.size());
    pages_.total = bytes.size() / page_size;
    if (bytes.size() % page_size != 0) {
      pages_.remarks.push_back(fmt::format(
          "the file was cut inside page {}; what is left of it is ignored", pages_.total));
    }
  }

  void read(std::size_t number) {
    Page page;
    page.number = number_ = number;
    page_ = bytes_.subspan(number * page_size, page_size);
    const auto magic = get<std::uint32_t>(page_.data() + page::magic);
    if (magic == 0) {  // allocated ahead, or its writer was killed while it took the page
      const Bytes records = page_.subspan(page::records);
      if (!ring_ && std::any_of(records.begin(), records.end(),
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
    page.used = get<std::uint16_t>(page_.data() + page::used);
    if (page.used != 0) check_sealed(page.used);
    page.epoch = std::to_integer<std::uint8_t>(page_[page::epoch]);
    if (page.epoch < first_epoch || page.epoch > last_epoch) {
      damaged("its epoch", fmt::format("{} to {}", first_epoch, last_epoch),
              fmt::format("{}", page.epoch));
    }
    if (const auto own = get<std::uint32_t>(page_.data() + page::number); own != number) {
      damaged("its number", fmt::format("{}", number), fmt::format("{}", own));
    }
    page.first_record = get<std::uint64_t>(page_.data() + page::first_record);
    headers_[stream()].push_back(page);
  }

  RecordPages take() {
    for (std::size_t stream = 0; stream < headers_.size(); ++stream) {
      auto& pages = headers_[stream];
      if (ring_ && !pages.empty()) {
        std::stable_sort(pages.begin(), pages.end(), [](const Page& a, const Page& b) {
          return a.first_record < b.first_record;
        });
        pages_.streams[stream].records = pages_.streams[stream].lost = pages.front().first_record;
      }
      for (const Page& page : pages) add_records(page, pages_.streams[stream]);
    }
    return std::move(pages_);
  }

 private:
  [[noreturn]] void damaged(const std::string& what, std::string expected, std::string found) {
    throw RecordingError(RecordingError::Kind::damaged,
                         {file_, number_ * page_size, fmt::format("page {}: {}", number_, what),
                          std::move(expected), std::move(found), "restore the file from a copy"});
  }

  void check_sealed(std::uint16_t used) {
    std::vector<std::byte> copy(page_.begin(), page_.end());
    put<std::uint32_t>(copy.data() + page::crc, 0);
    const auto recorded = get<std::uint32_t>(page_.data() + page::crc);
    if (const auto found = crc32c(copy); found != recorded) {
      damaged("its checksum", fmt::format("{:08x}", recorded), fmt::format("{:08x}", found));
    }
    if (used < page::records || used > page_size) {
      damaged("the end of its records", fmt::format("{} to {}", page::records, page_size),
              fmt::format("{}", used));
    }
  }

  std::size_t stream() {
    const auto id = get<std::uint16_t>(page_.data() + page::stream);
    const std::size_t ranks = headers_.size() - 1;
    if (id != run_stream && id >= ranks) {
      damaged("its stream", fmt::format("a rank below {}", ranks), fmt::format("{}", id));
    }
    return id == run_stream ? ranks : id;
  }

  void add_records(const Page& page, StreamPages& stream) {
    number_ = page.number;
    if (page.first_record != stream.records) {
      damaged("records of its stream before it", fmt::format("{}", stream.records),
              fmt::format("{}", page.first_record));
    }
    const std::size_t begin = page.number * page_size + page::records;
    const std::size_t limit = page.number * page_size + (page.used != 0 ? page.used : page_size);
    std::size_t offset = begin;
    while (const auto record = take_record(bytes_, offset, limit, page.epoch)) {
      // A page that was being taken when the writer was killed has fallen off as well.
      if (record->row != nullptr && record->row->kind == Kind::gap &&
          record->number > stream.lost) {
        damaged("records that fell off before it", fmt::format("at most {}", stream.lost),
                fmt::format("{}", record->number));
      }
      offset = record->end;
      ++stream.records;
    }
    if (page.used == 0) {
      ++pages_.open;
      if (offset < limit && bytes_[offset] != std::byte{0}) {
        pages_.remarks.push_back(
            fmt::format("page {}: the record at offset {} is torn; its stream ends before it",
                        page.number, offset));
      }
    } else if (offset != limit) {
      damaged(fmt::format("the record at offset {}", offset), "a whole record", "something else");
    }
    stream.pages.push_back({begin, offset, page.epoch});
  }

  Bytes bytes_;
  bool ring_;
  const std::string& file_;
  std::vector<std::vector<Page>> headers_;  // per stream
  RecordPages pages_;
  std::size_t number_ = 0;  // of the page at hand
  Bytes page_;
};

}  // namespace

RecordPages read_pages(Bytes bytes, std::size_t first_page, int ranks, bool ring,
                       const std::string& file) {
  PageReader reader(bytes, ranks, ring, file);
  for (std::size_t page = first_page; page < bytes.size() / page_size; ++page) reader.read(page);
  return reader.take();
}

}  // namespace sluice::replay::format
