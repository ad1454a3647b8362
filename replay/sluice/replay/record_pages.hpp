// The pages of a recording's file: checks each one and sorts them by stream.
//
// Below this file there are bytes; above it, streams of whole records. Used by the reader; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sluice/replay/record.hpp>

namespace sluice::replay::format {

/// The records of one page: [begin, end) in the file.
struct PageRecords {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint8_t epoch = 0;
};

struct StreamPages {
  std::vector<PageRecords> pages;
  std::uint64_t records = 0;  ///< those that have fallen off a ring included
  std::uint64_t lost = 0;     ///< of a ring: fallen off
};

struct RecordPages {
  std::vector<StreamPages> streams;  ///< of the ranks, then of the run
  std::size_t total = 0;             ///< whole pages in the file, header included
  std::size_t open = 0;              ///< pages that are not sealed, or not used
  std::vector<std::string> remarks;
};

/// Throws RecordingError for a page that is not as it was written. `ring`: pages have been used again.
/// `file` is for messages.
RecordPages read_pages(std::span<const std::byte> bytes, std::size_t first_page, int ranks,
                       bool ring, const std::string& file);

/// Where a record stands: index of its page in the stream, and offset in the file.
struct RecordPlace {
  std::size_t page = 0;
  std::size_t offset = 0;
};

/// Calls `take(record, place)` for the records of a known kind from `place` on, until it returns false.
/// Not for gaps, which say something about pages.
template <class Take>
void for_each_record(std::span<const std::byte> bytes, const StreamPages& stream, RecordPlace place,
                     Take&& take) {
  for (; place.page < stream.pages.size(); ++place.page, place.offset = 0) {
    const PageRecords& page = stream.pages[place.page];
    if (place.offset == 0) place.offset = page.begin;
    while (place.offset < page.end) {
      const Record record = *take_record(bytes, place.offset, page.end, page.epoch);
      const bool shown = record.row != nullptr && record.row->kind != Kind::gap;
      if (shown && !take(record, place)) return;
      place.offset = record.end;
    }
  }
}

}  // namespace sluice::replay::format
