#include <sluice/replay/recording_writer.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <sluice/replay/crc32c.hpp>
#include <sluice/replay/old_recording.hpp>
#include <sluice/replay/recording_error.hpp>

namespace sluice::replay {
namespace {

using namespace format;

// Growth doubles the file between these bounds.
constexpr std::size_t least_growth = 16;   // pages: 64 KiB
constexpr std::size_t most_growth = 2048;  // pages: 8 MiB

/// Visible to whoever reads the file only after everything stored before.
template <class Number>
void publish(std::byte* at, Number value) {
  std::atomic_ref<Number>(*reinterpret_cast<Number*>(at)).store(value, std::memory_order_release);
}

void seal(std::byte* at, std::size_t end) {
  const auto used = static_cast<std::uint16_t>(end);
  // The checksum is of the page as it will be: a process killed between the two stores leaves an
  // open page, never a sealed one with a wrong checksum.
  std::array<std::byte, page_size> sealed;
  std::memcpy(sealed.data(), at, page_size);
  put(sealed.data() + page::used, used);
  put(at + page::crc, crc32c(sealed));
  publish(at + page::used, used);
}

/// A limit on file size shows as an error, not as a signal that ends the process, while this lives.
class FileSizeSignal {
 public:
  FileSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~FileSizeSignal() {
    if (sigismember(&before_, SIGXFSZ) == 1) return;
    const timespec no_wait{};
    while (::sigtimedwait(&signal_, nullptr, &no_wait) == -1 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  FileSizeSignal(const FileSizeSignal&) = delete;
  FileSizeSignal& operator=(const FileSizeSignal&) = delete;

 private:
  sigset_t signal_{};
  sigset_t before_{};
};

std::string advice_for(int error) {
  switch (error) {
    case EEXIST:
      return "choose another name, or have the old recording overwritten (sluice train "
             "--overwrite, "
             "RecorderOptions::overwrite)";
    case ENOENT: return "create the folder first";
    case EACCES:
    case EPERM:
    case EROFS: return "choose a folder that you may write to";
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return "free disk space (or raise the limit on file size), or record elsewhere";
    default: return "";
  }
}

}  // namespace

// --- a stream ---

void RecordStream::append(Kind kind) { write(kind, {}); }

void RecordStream::append(Kind kind, std::uint64_t number) {
  std::array<std::byte, longest_varint> field;
  const std::byte* end = put_varint(field.data(), number);
  write(kind, std::span(field.data(), end));
}

void RecordStream::append_hash(Kind kind, std::uint64_t hash) {
  std::array<std::byte, sizeof hash> field;
  put(field.data(), hash);
  write(kind, field);
}

void RecordStream::append_bytes(Kind kind, std::span<const std::byte> bytes) {
  std::array<std::byte, page_room> fields;
  std::byte* at = put_varint(fields.data(), bytes.size());
  if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
  write(kind, std::span(fields.data(), at + bytes.size()));
}

void RecordStream::append_planned() {
  if (run_ != nullptr && std::to_integer<std::uint64_t>(*run_) < most_planned) {
    publish(run_, static_cast<std::uint8_t>(std::to_integer<std::uint8_t>(*run_) + 1));
    return;
  }
  append(Kind::planned, 1);
  run_ = page_ + end_ - 2;
}

void RecordStream::write(Kind kind, std::span<const std::byte> fields) {
  provide(fields.size() + 2);
  std::byte* at = page_ + end_;
  if (!fields.empty()) std::memcpy(at + 1, fields.data(), fields.size());
  at[1 + fields.size()] = commit_of(epoch_);
  publish(at, std::to_integer<std::uint8_t>(tag_of(kind)));
  end_ += fields.size() + 2;
  ++records_;
  run_ = nullptr;
}

std::size_t RecordStream::room_on_page() const {
  constexpr std::size_t around = longest_varint + 2;
  constexpr std::size_t least = 64;
  const std::size_t left = page_size - end_;
  return left < around + least ? 0 : left - around;
}

void RecordStream::provide(std::size_t size) {
  if (end_ + size <= page_size) return;
  if (page_ != nullptr) full_.emplace_back(page_, end_);
  // Without a fresh page this one stays closed to further records.
  page_ = nullptr;
  end_ = page_size;
  page_ = writer_->take_page(*this);
  ++pages_;
  end_ = page::records;
  epoch_ = std::to_integer<std::uint8_t>(page_[page::epoch]);
  if (const std::uint64_t lost = ring_.empty() ? 0 : ring_[oldest_].second) {
    append(Kind::gap, lost);
  }
}

void RecordStream::seal_full_pages() {
  for (const auto& [full, end] : full_) seal(full, end);
  full_.clear();
}

// --- the file ---

RecordingWriter::RecordingWriter(std::string path, const RecordingHeader& header, bool overwrite,
                                 std::size_t pages)
    : path_(std::move(path)), ring_pages_(header.ring_pages) {
  const auto bytes = encode_header(header);
  std::optional<OldRecording> old;
  if (overwrite) old.emplace(path_);
  // A new file takes the old one's place when it is there: until then the old one stays, and whoever
  // reads it keeps it.
  const std::string made =
      old && old->there() ? fmt::format("{}.new-{}", path_, ::getpid()) : path_;
  file_ = ::open(made.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file_ < 0) fail("creating the file", "a new file in a folder that can be written to", errno);
  first_page_ = next_page_ = allocated_ = touched_ = bytes.size() / page_size;
  try {
    if (!lock_recording(file_)) {
      throw RecordingError(RecordingError::Kind::io,
                           {path_, std::nullopt, "creating the file", "this run's own",
                            "another holds a lock on it", "choose another name"});
    }
    const FileSizeSignal no_signal;
    // What is wrong only the write behind a short one says.
    for (std::size_t written = 0; written < bytes.size();) {
      const auto more = ::write(file_, bytes.data() + written, bytes.size() - written);
      if (more <= 0) {
        fail("writing the header", fmt::format("room for {} bytes", bytes.size()),
             more < 0 ? errno : ENOSPC);
      }
      written += static_cast<std::size_t>(more);
    }
    for (int r = 0; r < header.ranks; ++r) {
      streams_.push_back(std::make_unique<RecordStream>(*this, static_cast<std::uint16_t>(r)));
    }
    streams_.push_back(std::make_unique<RecordStream>(*this, run_stream));
    make_room(std::max(pages, streams_.size()));
    if (made != path_ && ::rename(made.c_str(), path_.c_str()) != 0) {
      fail("taking the place of the old recording", "a folder that can be written to", errno);
    }
  } catch (...) {
    unmap();
    ::close(file_);
    ::unlink(made.c_str());
    throw;
  }
}

RecordingWriter::~RecordingWriter() {
  unmap();
  if (file_ >= 0) ::close(file_);
}

void RecordingWriter::make_room(std::size_t pages, std::size_t least) {
  const std::scoped_lock lock(mutex_);
  require_whole();
  const std::size_t wanted = room_for(next_page_ + pages);
  try {
    if (wanted > allocated_) grow(wanted - allocated_);
  } catch (const RecordingError&) {
    if (fewest_pages() < least) throw;
    ring_pages_ = fewest_pages();
  }
  promised_ = room_for(wanted);
  touched_ = std::max(touched_, next_page_);
  for (; touched_ < promised_; ++touched_) *page(touched_) = std::byte{0};
}

/// Storing behind the end of a file that somebody has cut is a signal that ends the process. Between
/// steps it is an error.
void RecordingWriter::require_whole() const {
  struct stat status{};
  const auto size = static_cast<std::uint64_t>(::fstat(file_, &status) == 0 ? status.st_size : 0);
  if (size >= allocated_ * page_size || allocated_ == first_page_) return;
  throw RecordingError(
      RecordingError::Kind::io,
      {path_, std::nullopt, "the file that is recorded into",
       fmt::format("{} bytes", allocated_ * page_size), fmt::format("{} bytes", size),
       "somebody has cut it: copy a recording, or wait for the run's end, before changing it"});
}

void RecordingWriter::add_room(std::size_t pages) {
  const std::scoped_lock lock(mutex_);
  const std::size_t wanted = room_for(promised_ + pages);
  if (wanted > allocated_) grow(wanted - allocated_);
  promised_ = wanted;
}

/// Of a stream of a ring.
std::size_t RecordingWriter::fewest_pages() const {
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  for (const auto& stream : streams_) fewest = std::min(fewest, stream->ring_.size());
  return fewest;
}

/// As many pages as that, or as a ring has at most.
std::size_t RecordingWriter::room_for(std::size_t pages) const {
  if (ring_pages_ == 0) return pages;
  return std::min(pages, first_page_ + ring_pages_ * streams_.size());
}

void RecordingWriter::seal_full_pages() {
  for (const auto& stream : streams_) stream->seal_full_pages();
}

void RecordingWriter::sync() {
  if (::fdatasync(file_) != 0) fail("syncing the file", "the disk to take it", errno);
}

void RecordingWriter::close() {
  // The page that will hold the closing record counts as well.
  run().provide(longest_varint + 2);
  const std::size_t pages = next_page_;
  run().append(Kind::run_ended, pages);
  for (const auto& stream : streams_) {
    if (stream->page_ != nullptr) stream->full_.emplace_back(stream->page_, stream->end_);
  }
  seal_full_pages();
  unmap();
  const auto size = static_cast<off_t>(pages * page_size);
  if (::ftruncate(file_, size) != 0 || ::fsync(file_) != 0) {
    fail("closing the file", "the disk to take it", errno);
  }
  ::close(std::exchange(file_, -1));
}

std::byte* RecordingWriter::take_page(RecordStream& stream) {
  if (ring_pages_ > 0 && stream.ring_.size() >= ring_pages_) return take_again(stream);
  const std::scoped_lock lock(mutex_);
  if (next_page_ == allocated_) grow(1);
  const std::size_t number = next_page_++;
  std::byte* at = page(number);
  put(at + page::stream, stream.id_);
  put(at + page::epoch, first_epoch);
  put(at + page::number, static_cast<std::uint32_t>(number));
  put(at + page::first_record, stream.records_);
  publish(at + page::magic, page::magic_value);
  if (ring_pages_ > 0) stream.ring_.emplace_back(at, stream.records_);
  return at;
}

/// A stream's oldest page; only that stream touches it.
std::byte* RecordingWriter::take_again(RecordStream& stream) {
  auto& [at, first_record] = stream.ring_[stream.oldest_];
  stream.oldest_ = (stream.oldest_ + 1) % stream.ring_.size();
  const auto unsealed =
      std::find_if(stream.full_.begin(), stream.full_.end(),
                   [oldest = at](const auto& full) { return full.first == oldest; });
  if (unsealed != stream.full_.end()) stream.full_.erase(unsealed);

  first_record = stream.records_;
  const auto uses = std::to_integer<std::uint8_t>(at[page::epoch]);
  publish(at + page::magic, std::uint32_t{0});
  std::atomic_signal_fence(std::memory_order_seq_cst);  // nothing below moves above
  std::memset(at + page::records, 0, page_room);
  put(at + page::used, std::uint16_t{0});
  put(at + page::crc, std::uint32_t{0});
  put(at + page::epoch, static_cast<std::uint8_t>(uses % last_epoch + 1));
  put(at + page::first_record, stream.records_);
  publish(at + page::magic, page::magic_value);
  return at;
}

std::byte* RecordingWriter::page(std::size_t number) {
  std::size_t past = allocated_;
  for (auto chunk = chunks_.rbegin();; ++chunk) {
    const std::size_t first = past - chunk->pages;
    if (number >= first) return chunk->first + (number - first) * page_size;
    past = first;
  }
}

void RecordingWriter::grow(std::size_t pages) {
  const std::size_t needed = room_for(allocated_ + pages) - allocated_;
  std::size_t wanted =
      room_for(allocated_ +
               std::max(pages, std::clamp(allocated_ - first_page_, least_growth, most_growth))) -
      allocated_;
  const std::size_t offset = allocated_ * page_size;
  const FileSizeSignal no_signal;
  // Reports what is wrong by its result, not through errno.
  const auto allocate = [&] {
    return ::posix_fallocate(file_, static_cast<off_t>(offset),
                             static_cast<off_t>(wanted * page_size));
  };
  int error = allocate();
  if (error != 0 && wanted > needed) {  // the last of the disk is enough
    wanted = needed;
    error = allocate();
  }
  const std::size_t size = wanted * page_size;
  if (error != 0) fail("growing the file", fmt::format("room for {} more bytes", size), error);

  // The system's pages may be larger than ours.
  const std::size_t lead = offset % static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  Chunk chunk;
  chunk.mapped = size + lead;
  void* mapping = ::mmap(nullptr, chunk.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file_,
                         static_cast<off_t>(offset - lead));
  if (mapping == MAP_FAILED) fail("mapping the file", "a shared memory mapping", errno);
  chunk.mapping = static_cast<std::byte*>(mapping);
  chunk.first = chunk.mapping + lead;
  chunk.pages = wanted;
  chunks_.push_back(chunk);
  allocated_ += wanted;
}

void RecordingWriter::unmap() {
  for (const Chunk& chunk : chunks_) ::munmap(chunk.mapping, chunk.mapped);
  chunks_.clear();
}

void RecordingWriter::fail(const std::string& what, const std::string& expected, int error) const {
  throw RecordingError(RecordingError::Kind::io,
                       {path_, std::nullopt, what, expected, std::generic_category().message(error),
                        advice_for(error)});
}

}  // namespace sluice::replay
