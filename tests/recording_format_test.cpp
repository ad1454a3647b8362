// The format's description: the document says what the code does, and tags are what the table says.

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sluice/replay/recording_format.hpp>

#include "recording_support.hpp"

namespace sluice::replay {
namespace {

namespace page = format::page;

TEST(RecordingFormat, TagsMatchTheTable) {
  for (std::size_t i = 0; i < format::kinds.size(); ++i) {
    const auto& row = format::kinds[i];
    EXPECT_EQ(static_cast<std::size_t>(row.kind), i + 1);
    EXPECT_EQ(format::row_of(std::to_integer<std::uint8_t>(format::tag_of(row.kind))), &row);
  }
}

/// The rows of the document that this build's constants give.
std::vector<std::string> rows_of_the_document() {
  namespace header = format::header;
  std::vector<std::string> rows;
  for (const auto& row : format::kinds) {
    constexpr std::array<const char*, 4> wires{"none", "number", "bytes", "hash"};
    rows.push_back(fmt::format("| {} | `{}` | {} | {} | {} |", static_cast<int>(row.kind), row.name,
                               wires[static_cast<std::size_t>(row.wire)], row.fields, row.meaning));
  }
  const auto field = [&rows](std::size_t at, const char* type, const char* what) {
    rows.push_back(fmt::format("| {} | {} | {}", at, type, what));
  };
  field(header::magic, "8 bytes", "`sluicer\\n`");
  field(header::major_version, "u16", "major version");
  field(header::minor_version, "u16", "minor version");
  field(header::crc, "u32", "CRC32C of the page");
  field(header::required_features, "u64", "required features");
  field(header::run_id, "16 bytes", "run id");
  field(header::ranks, "u32", "ranks");
  field(header::stages, "u32", "stages");
  field(header::identity_size, "u32", "bytes of the identity");
  field(header::identity_crc, "u32", "CRC32C of the identity's pages");
  field(header::mode, "u8", "mode");
  field(header::ring_pages, "u32", "pages of each stream");
  field(header::slots, "u32", "how many values may wait");
  field(page::magic, "u32", "`slpg`");
  field(page::stream, "u16", "stream");
  field(page::epoch, "u8", "epoch");
  field(page::number, "u32", "number of the page in the file");
  field(page::used, "u16", "end of the last record");
  field(page::crc, "u32", "CRC32C of the page");
  field(page::first_record, "u64", "records of this stream on earlier pages");
  field(page::records, "to the end", "records");
  return rows;
}

TEST(RecordingFormat, TheDocumentSaysWhatTheCodeDoes) {
  std::ifstream file(SLUICE_SOURCE_DIR "/docs/recording-format.md");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ASSERT_FALSE(text.empty());
  for (const std::string& row : rows_of_the_document()) {
    EXPECT_NE(text.find(row), std::string::npos) << "not in the document: " << row;
  }
  EXPECT_TRUE(text.starts_with(fmt::format("# The format of a recording, version {}.{}",
                                           format::major_version, format::minor_version)));
}

}  // namespace
}  // namespace sluice::replay
