// What the tests of recordings share: a folder of their own, files as bytes, and recordings written
// record by record.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <sluice/replay/crc32c.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/recording_writer.hpp>
#include <sluice/replay/step_decoder.hpp>

namespace sluice::test {

/// A fresh folder, gone with the object.
class TempFolder {
 public:
  explicit TempFolder(
      const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "sluice-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// No file of this process grows beyond `bytes` while this lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

inline std::vector<std::byte> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

inline replay::RecordingHeader small_header(int ranks) {
  replay::RecordingHeader header;
  header.run_id = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  header.ranks = ranks;
  header.stages = ranks;
  header.identity = R"({"compiler": "test"})";
  return header;
}

/// One rank's plan of `microbatches` forwards, then as many backwards.
inline std::vector<Action> fill_and_drain(StageId stage, int microbatches) {
  std::vector<Action> order;
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    for (int mb = 0; mb < microbatches; ++mb) order.emplace_back(stage, phase, MicrobatchId(mb));
  }
  return order;
}

inline void append_order(replay::RecordStream& stream, const std::vector<Action>& order,
                         int stages) {
  std::vector<std::byte> fields(2000);
  std::byte* end = replay::format::put_varint(fields.data(), 0);
  end = replay::format::put_varint(end, order.size());
  for (const Action& action : order) {
    end = replay::format::put_varint(end, replay::code_of(action, stages));
  }
  stream.append_bytes(replay::format::Kind::order, std::span(fields.data(), end));
}

/// Makes the checksums of sealed pages right again, as if the bytes had been written so.
inline void reseal(std::vector<std::byte>& bytes) {
  namespace page = replay::format::page;
  for (std::size_t at = 0; at < bytes.size(); at += replay::format::page_size) {
    const auto bytes_of_page = std::span(bytes).subspan(at, replay::format::page_size);
    std::byte* start = bytes_of_page.data();
    if (replay::format::get<std::uint32_t>(start + page::magic) != page::magic_value ||
        replay::format::get<std::uint16_t>(start + page::used) == 0) {
      continue;
    }
    replay::format::put<std::uint32_t>(start + page::crc, 0);
    replay::format::put(start + page::crc, replay::crc32c(bytes_of_page));
  }
}

}  // namespace sluice::test
