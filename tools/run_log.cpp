#include "run_log.hpp"

#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <sluice/log.hpp>

namespace sluice::tools {
namespace {

bool is_log(std::string_view head) { return head.starts_with("seq="); }

}  // namespace

RunLog::RunLog(const std::filesystem::path& path, int stages) {
  if (path.has_filename() && !std::filesystem::is_directory(path)) {
    files_.push_back({OutputFile(path, "log", is_log)});
    return;
  }
  std::error_code ignored;  // opening the first file says what is wrong
  std::filesystem::create_directories(path, ignored);
  for (int s = 0; s < stages; ++s)
    files_.push_back({OutputFile(path / fmt::format("stage-{}.log", s), "log", is_log)});
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
    file.out.write(file.pending);
    file.pending.clear();
  }
}

}  // namespace sluice::tools
