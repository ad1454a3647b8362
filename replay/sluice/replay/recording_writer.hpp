// Writes a recording's file: pages in a shared memory mapping, one stream a rank.
//
// An append is a few stores into the mapping, without lock or system call; since the kernel owns the
// mapped pages, a process that is killed loses nothing that was appended. Only taking a new page is
// shared between streams. Disk space is allocated before it is mapped, because a sparse mapping on a
// full disk is a SIGBUS, not an error.
//
// A ring grows until each stream has its pages, or the disk has no more. Then a stream takes its oldest
// one again: first it is marked as unused, then wiped, then begun anew, so that a process killed in between
// leaves no stale record that reads as valid.
//
// Each stream is used by one thread at a time: a rank's by its executor, the run's by whoever runs the
// steps. `make_room`, `seal_full_pages`, `close` and the destructor are called while no stream is in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/replay/recording_format.hpp>
#include <sluice/replay/recording_header.hpp>

namespace sluice::replay {

class RecordingWriter;

/// The records of one rank, or of the run. An append throws RecordingError only when it needs a page
/// for which no room was made and none can be had.
class RecordStream {
 public:
  RecordStream(RecordingWriter& writer, std::uint16_t id) : writer_(&writer), id_(id) {}

  void append(format::Kind kind);
  void append(format::Kind kind, std::uint64_t number);
  void append_hash(format::Kind kind, std::uint64_t hash);
  /// At most `most_bytes` of them.
  void append_bytes(format::Kind kind, std::span<const std::byte> bytes);
  /// One more event as planned: a record of its own, or a count that grows in place.
  void append_planned();

  /// How many bytes of `append_bytes` still fit on its page; 0 where that is not worth a record.
  std::size_t room_on_page() const;

  /// How many pages it has taken, those of a ring that it has taken again included.
  std::uint64_t pages() const { return pages_; }

  /// A gap may stand before it on its page.
  static constexpr std::size_t most_bytes = format::page_room - 4 - (format::longest_varint + 2);

 private:
  friend class RecordingWriter;
  void write(format::Kind kind, std::span<const std::byte> fields);
  /// Sees to it that the next `size` bytes are on one page.
  void provide(std::size_t size);
  void seal_full_pages();

  RecordingWriter* writer_;
  std::uint16_t id_;
  std::byte* page_ = nullptr;
  std::size_t end_ = format::page_size;       // of what is written on the page
  std::uint8_t epoch_ = format::first_epoch;  // of the page
  std::uint64_t records_ = 0;
  std::uint64_t pages_ = 0;
  std::vector<std::pair<std::byte*, std::uint64_t>> ring_;  // its pages and their first records
  std::size_t oldest_ = 0;                                  // of them
  std::vector<std::pair<std::byte*, std::size_t>>
      full_;                  // pages still to be sealed, and their ends
  std::byte* run_ = nullptr;  // the count of a `planned` record that is the last one
};

class RecordingWriter {
 public:
  /// Creates the file, with a page for each stream, or with `pages` if they are more; one that exists is
  /// an error, or replaced, unless somebody writes to it: a writer holds a lock (flock) on its file.
  /// Throws RecordingError, and then an old one is as it was.
  RecordingWriter(std::string path, const RecordingHeader& header, bool overwrite = false,
                  std::size_t pages = 0);
  /// Leaves the file as a killed process would: readable, without its closing record.
  ~RecordingWriter();
  RecordingWriter(const RecordingWriter&) = delete;
  RecordingWriter& operator=(const RecordingWriter&) = delete;

  RecordStream& rank(RankId id) { return *streams_[id.index()]; }
  RecordStream& run() { return *streams_.back(); }

  /// Allocates and touches disk space for the next `pages` pages, so that neither a full disk nor a
  /// page fault meets the appends. Throws RecordingError, with everything appended intact; for a file
  /// that somebody has cut as well. A ring whose streams have `least` pages each does not need the disk:
  /// it goes on in those that it has.
  void make_room(std::size_t pages, std::size_t least = std::numeric_limits<std::size_t>::max());

  /// Room for `pages` more than that, while streams are in use. From any thread. Throws RecordingError.
  void add_room(std::size_t pages);

  /// Puts the checksums on the pages that are full. Costs half a microsecond a page where the processor
  /// helps, ten where not; an append does not wait for it.
  void seal_full_pages();

  /// Waits until everything appended is on the disk. Throws RecordingError.
  void sync();

  /// Writes the closing record, seals every page, cuts the file to what is used and waits for the
  /// disk. Nothing may be appended afterwards. Throws RecordingError.
  void close();

  const std::string& path() const { return path_; }

  /// Of each stream, before it takes its oldest page again; 0: no ring. The same during a step.
  std::size_t ring_pages() const { return ring_pages_; }

 private:
  friend class RecordStream;
  struct Chunk {
    std::byte* mapping = nullptr;  // of `mapped` bytes
    std::size_t mapped = 0;
    std::byte* first = nullptr;  // page
    std::size_t pages = 0;
  };

  std::byte* take_page(RecordStream& stream);
  std::byte* take_again(RecordStream& stream);
  std::size_t room_for(std::size_t pages) const;
  std::byte* page(std::size_t number);
  void grow(std::size_t pages);
  std::size_t fewest_pages() const;
  void require_whole() const;
  void unmap();
  [[noreturn]] void fail(const std::string& what, const std::string& expected, int error) const;

  std::string path_;
  int file_ = -1;
  std::size_t ring_pages_ = 0;
  std::vector<std::unique_ptr<RecordStream>> streams_;

  std::mutex mutex_;  // of everything below
  std::vector<Chunk> chunks_;
  std::size_t first_page_ = 0;  // numbers of pages in the file
  std::size_t next_page_ = 0;
  std::size_t promised_ = 0;  // pages up to here may be taken without growth
  std::size_t allocated_ = 0;
  std::size_t touched_ = 0;
};

}  // namespace sluice::replay
