#include "log_input.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include <sluice/replay/recording_format.hpp>

#include "errors.hpp"
#include "recorded_events.hpp"
#include "recording_file.hpp"

namespace sluice::tools {
namespace {

constexpr unsigned piece = 256U << 10U;

bool is_recording(const std::string& path) {
  std::array<char, replay::format::magic.size()> first{};
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), first.size());
  return file && first == replay::format::magic;
}

}  // namespace

LogInput::LogInput(const std::string& path) : name_(path == "-" ? "standard input" : path) {
  if (path != "-" && std::filesystem::is_regular_file(path) && is_recording(path)) {
    recording_ = open_recording(path).recording;
    return;
  }
  if (std::filesystem::is_directory(path)) {
    throw UsageError(path, "is a folder; give the logs in it, as in sluice check folder/*");
  }
  // zlib passes on what is not gzipped as it is.
  errno = 0;
  file_.reset(path == "-" ? gzdopen(::dup(STDIN_FILENO), "rb") : gzopen(path.c_str(), "rb"));
  if (!file_) {
    throw UsageError(name_, fmt::format("cannot be read: {}; expected a log or a recording",
                                        std::strerror(errno)));
  }
  gzbuffer(file_.get(), piece);
}

bool LogInput::read(std::string& bytes) {
  if (recording_) return read_step(bytes);
  bytes.resize(piece);
  gzclearerr(file_.get());
  const int count = gzread(file_.get(), bytes.data(), piece);
  if (count < 0) {
    int error = Z_OK;
    const char* what = gzerror(file_.get(), &error);
    // Cut short while it was compressed: what there was has been read.
    if (error == Z_BUF_ERROR) return false;
    throw UsageError(
        name_, fmt::format("cannot be read: {}", error == Z_ERRNO ? std::strerror(errno) : what));
  }
  bytes.resize(static_cast<std::size_t>(count));
  return count > 0;
}

bool LogInput::read_step(std::string& bytes) {
  bytes.clear();
  if (next_step_ == recording_->steps()) return false;
  for (const NumberedEvent& numbered : events_of(recording_->step(next_step_++), {})) {
    bytes += line_of(numbered);
    bytes += '\n';
  }
  return true;
}

}  // namespace sluice::tools
