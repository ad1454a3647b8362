#include "log_input.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "errors.hpp"
#include "recorded_events.hpp"
#include "recording_file.hpp"

namespace sluice::tools {
namespace {

constexpr std::size_t piece = std::size_t{256} << 10;

}  // namespace

LogInput::File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

LogInput::LogInput(const std::string& path) : name_(path == "-" ? "standard input" : path) {
  if (path != "-" && is_recording(path)) {
    RecordingFile opened = open_recording(path);
    recording_ = std::move(opened.recording);
    if (!opened.faults.empty()) fault_ = std::move(opened.faults.front());
    return;
  }
  if (std::filesystem::is_directory(path)) {
    throw UsageError(path, "is a folder; give the logs in it, as in sluice check folder/*");
  }
  file_ = File(path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                           : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file_.get() < 0) cannot_be_read();
}

void LogInput::cannot_be_read() const {
  throw UsageError(name_, fmt::format("cannot be read: {}; expected a log or a recording",
                                      std::strerror(errno)));
}

bool LogInput::read(std::string& bytes) {
  if (recording_) return read_step(bytes);
  while (!unpacker_ || !unpacker_->unpack(bytes)) {
    bytes.resize(piece);
    std::size_t size = 0;
    // The first piece is long enough to tell how the file is compressed.
    const std::size_t least = begun_ ? 1 : Unpacker::head;
    while (size < least) {
      const std::size_t more = read_file(bytes.data() + size, bytes.size() - size);
      if (more == 0) break;
      size += more;
    }
    bytes.resize(size);
    if (size == 0) return false;
    if (!std::exchange(begun_, true)) unpacker_ = unpacker_for(bytes, name_);
    if (!unpacker_) return true;
    unpacker_->feed(std::exchange(bytes, {}));
  }
  return true;
}

std::size_t LogInput::read_file(char* to, std::size_t room) {
  while (true) {
    const ssize_t count = ::read(file_.get(), to, room);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) cannot_be_read();
  }
}

bool LogInput::read_step(std::string& bytes) {
  bytes.clear();
  step_end_.reset();
  if (next_step_ == recording_->steps()) return false;
  const replay::RecordedStep step = recording_->step(next_step_++);
  for (const NumberedEvent& numbered : events_of(step, {})) {
    bytes += line_of(numbered);
    bytes += '\n';
  }
  if (!step.complete) {
    step_end_.emplace(step.number, "the recording ends inside the step: " +
                                       (fault_.empty() ? "its writer was killed" : fault_));
  } else if (!step.error.empty()) {
    step_end_.emplace(step.number, fmt::format("the step failed, as recorded: {}", step.error));
  }
  return true;
}

void LogInput::keep() {
  if (recording_ || ::lseek(file_.get(), 0, SEEK_CUR) >= 0) return;
  std::FILE* const copy = std::tmpfile();
  if (copy == nullptr) cannot_be_read();
  std::string bytes(piece, '\0');
  while (const std::size_t count = read_file(bytes.data(), bytes.size())) {
    if (std::fwrite(bytes.data(), 1, count, copy) != count) break;
  }
  const bool written = std::fflush(copy) == 0 && std::ferror(copy) == 0;
  file_ = File(::fcntl(::fileno(copy), F_DUPFD_CLOEXEC, 0));
  std::fclose(copy);
  if (!written || file_.get() < 0) cannot_be_read();
  rewind();
}

void LogInput::rewind() {
  next_step_ = 0;
  begun_ = false;
  unpacker_.reset();
  if (!recording_ && ::lseek(file_.get(), 0, SEEK_SET) < 0) cannot_be_read();
}

}  // namespace sluice::tools
