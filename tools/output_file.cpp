#include "output_file.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "errors.hpp"

namespace sluice::tools {
namespace {

std::string_view advice_for(int error) {
  switch (error) {
    case ENOENT: return "; create the folder first";
    case EACCES:
    case EPERM:
    case EROFS: return "; choose a folder that you may write to";
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return "; free disk space (or raise the limit on file size), or write elsewhere";
    default: return "";
  }
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path, std::string_view kind, IsOfKind is_of_kind)
    : path_(std::move(path)) {
  std::error_code ignored;  // opening it says what is wrong
  const auto type = std::filesystem::status(path_, ignored).type();
  regular_ =
      type == std::filesystem::file_type::regular || type == std::filesystem::file_type::not_found;
  const int access = regular_ ? O_RDWR | O_CREAT : O_WRONLY;
  file_ = ::open(path_.c_str(), access | O_CLOEXEC, 0666);
  if (file_ < 0) fail(errno);
  try {
    if (regular_) take(kind, is_of_kind);
  } catch (...) {
    ::close(file_);
    throw;
  }
}

OutputFile::~OutputFile() {
  if (file_ >= 0) ::close(file_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      regular_(other.regular_),
      emptied_(other.emptied_) {}

void OutputFile::fail(int error) const {
  throw UsageError(path_.string(),
                   fmt::format("cannot be written: {}{}", std::strerror(error), advice_for(error)));
}

void OutputFile::take(std::string_view kind, IsOfKind is_of_kind) {
  // Where a file system knows no locks, two writers cannot be told apart.
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw UsageError(path_.string(),
                     "another process is writing it: expected a file of its own; choose another "
                     "name, or wait for the other to end");
  }
  std::array<char, 64> head{};
  const auto size = ::pread(file_, head.data(), head.size(), 0);
  if (size < 0) fail(errno);
  if (size > 0 && !is_of_kind({head.data(), static_cast<std::size_t>(size)})) {
    throw UsageError(path_.string(), fmt::format("is there already, and is no {0}: expected a new "
                                                 "file, or an old {0} to replace; choose another "
                                                 "name, or remove it yourself",
                                                 kind));
  }
}

void OutputFile::write(std::string_view text) {
  if (regular_ && !std::exchange(emptied_, true) && ::ftruncate(file_, 0) != 0) fail(errno);
  const off_t before = regular_ ? ::lseek(file_, 0, SEEK_CUR) : 0;
  while (!text.empty()) {
    const auto written = ::write(file_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : ENOSPC;
      // What was whole before stays whole.
      if (regular_ && ::ftruncate(file_, before) == 0) ::lseek(file_, before, SEEK_SET);
      fail(error);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace sluice::tools
