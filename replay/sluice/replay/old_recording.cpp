#include <sluice/replay/old_recording.hpp>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/replay/recording_error.hpp>
#include <sluice/replay/recording_format.hpp>

namespace sluice::replay {

bool lock_recording(int file) {
  return ::flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

OldRecording::OldRecording(const std::string& path) {
  do {
    forget();
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) return;  // creating the file will say what is wrong
    if (S_ISREG(status.st_mode)) file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::array<char, format::magic.size()> start{};
    const auto size = static_cast<ssize_t>(start.size());
    if (file_ < 0 || ::pread(file_, start.data(), start.size(), 0) != size ||
        start != format::magic) {
      refuse(path, "an old recording", "something else",
             "choose another name, or remove it yourself");
    }
    if (!lock_recording(file_)) {
      refuse(path, "one that nobody writes to", "another run records into it",
             "choose another name, or wait for that run's end");
    }
  } while (!is_still_at(path));  // else somebody has replaced it in between
}

void OldRecording::refuse(const std::string& path, std::string expected, std::string found,
                          std::string advice) {
  forget();
  throw RecordingError(RecordingError::Kind::io,
                       {path, std::nullopt, "replacing the file", std::move(expected),
                        std::move(found), std::move(advice)});
}

bool OldRecording::is_still_at(const std::string& path) const {
  struct stat mine{};
  struct stat there{};
  return ::fstat(file_, &mine) == 0 && ::stat(path.c_str(), &there) == 0 &&
         mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

void OldRecording::forget() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

}  // namespace sluice::replay
