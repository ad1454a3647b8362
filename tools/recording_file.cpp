#include "recording_file.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <sluice/kernels/idx.hpp>
#include <sluice/replay/recording_format.hpp>

#include "case_file.hpp"

namespace sluice::tools {
namespace {

namespace format = replay::format;

/// A page that its writer had not finished: still written to, or not yet used.
bool is_open(std::span<const std::byte> page) {
  if (format::get<std::uint32_t>(page.data() + format::page::magic) == format::page::magic_value) {
    return format::get<std::uint16_t>(page.data() + format::page::used) == 0;
  }
  return std::all_of(page.begin(), page.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

bool was_cut(std::span<const std::byte> bytes) {
  if (bytes.size() % format::page_size != 0) return true;
  for (std::size_t at = 0; at < bytes.size(); at += format::page_size) {
    if (is_open(bytes.subspan(at, format::page_size))) return false;
  }
  return true;
}

std::string readable_part(const replay::Recording& recording, std::size_t bytes) {
  std::string last = "before the first step";
  if (recording.steps() > 0) {
    const auto step = recording.step(recording.steps() - 1);
    std::size_t events = 0;
    for (const auto& of_rank : step.ranks) events += of_rank.size();
    last = step.complete ? fmt::format("after step {}", step.number)
                         : fmt::format("in step {}, after {} of its events", step.number, events);
  }
  return fmt::format(
      "cut short: the {} bytes that are left can be read and end {} (a run that was "
      "killed leaves whole pages, so this happened to the file later)",
      bytes, last);
}

}  // namespace

RecordingFile open_recording(const std::filesystem::path& path) {
  if (is_case(path)) {
    const auto unpacked = std::make_shared<const UnpackedCase>(path);
    RecordingFile file = open_recording(unpacked->recording());
    file.data = unpacked->data();
    file.unpacked = unpacked;
    return file;
  }
  const auto read = kernels::read_file(path, "give a recording made with sluice train --record");
  const auto* first = reinterpret_cast<const std::byte*>(read.data());
  const std::vector<std::byte> bytes(first, first + read.size());
  RecordingFile file;
  file.recording = replay::Recording::parse(bytes, path.string());
  if (!file.recording->closed() && was_cut(bytes)) {
    file.faults.push_back(readable_part(*file.recording, bytes.size()));
  } else {
    file.faults = file.recording->remarks();
  }
  return file;
}

}  // namespace sluice::tools
