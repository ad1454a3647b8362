#include "run_log.hpp"

#include <cerrno>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include <sluice/log.hpp>

#include "errors.hpp"

namespace sluice::tools {
namespace {

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
  throw UsageError(path.string(), fmt::format("cannot be written: {}", std::strerror(errno)));
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& path, int stages) {
  if (!path.has_filename() || std::filesystem::is_directory(path)) {
    std::error_code ignored;  // opening the first file says what is wrong
    std::filesystem::create_directories(path, ignored);
    for (int s = 0; s < stages; ++s)
      files_.push_back({path / fmt::format("stage-{}.log", s), {}, {}});
  } else {
    files_.push_back({path, {}, {}});
  }
  for (File& file : files_) {
    file.opened.reset(std::fopen(file.path.c_str(), "wb"));
    if (!file.opened) cannot_write(file.path);
  }
}

void RunLog::write(std::span<const Event> events) {
  for (const Event& event : events) {
    const bool enter = event.kind == Event::Kind::enter;
    if (!enter && event.kind != Event::Kind::exit) continue;
    if (seq_ == 0) start_ns_ = event.time_ns;
    LogRecord record;
    record.seq = ++seq_;
    record.action = event.action;
    record.event = enter ? LogRecord::Event::enter : LogRecord::Event::exit;
    record.step = event.step;
    record.rank = event.rank;
    record.t_ns = event.time_ns - start_ns_;
    File& file = files_.size() == 1 ? files_.front() : files_[event.action.stage.index()];
    file.pending += to_line(record) + '\n';
  }
  for (File& file : files_) {
    const bool written = std::fwrite(file.pending.data(), 1, file.pending.size(),
                                     file.opened.get()) == file.pending.size();
    if (!written || std::fflush(file.opened.get()) != 0) cannot_write(file.path);
    file.pending.clear();
  }
}

}  // namespace sluice::tools
