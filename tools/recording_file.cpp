#include "recording_file.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <span>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <sluice/kernels/idx.hpp>
#include <sluice/replay/recording_format.hpp>

#include "errors.hpp"

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
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown)) {
    throw UsageError(
        path.string(),
        "no regular file: expected a recording, or what sluice pack wrote; a pipe or a "
        "device has to be copied to a file first");
  }
  RecordingFile file;
  std::vector<std::byte> bytes;
  const auto take = [&bytes](const auto& read) {
    const auto all = std::as_bytes(std::span(read));
    bytes.assign(all.begin(), all.end());
  };
  if (is_case(path)) {
    file.of_case = std::make_shared<const Case>(read_case(path));
    take(file.of_case->recording);
  } else {
    take(kernels::read_file(path, "give a recording made with sluice train --record"));
  }
  file.recording = replay::Recording::parse(bytes, path.string());
  if (!file.recording->closed() && was_cut(bytes)) {
    file.faults.push_back(readable_part(*file.recording, bytes.size()));
  } else {
    file.faults = file.recording->remarks();
  }
  return file;
}

bool is_recording(const std::filesystem::path& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return false;
  std::array<char, format::magic.size()> first{};
  std::ifstream file(path, std::ios::binary);
  return file.read(first.data(), first.size()) && first == format::magic;
}

void check_rank(const replay::Recording& recording, std::optional<int> rank) {
  const int ranks = recording.header().ranks;
  if (!rank || *rank < ranks) return;
  throw UsageError("--rank", fmt::format("{}: expected 0 to {}", *rank, ranks - 1));
}

}  // namespace sluice::tools
