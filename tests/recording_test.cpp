// The file format: what was written is read, what was changed is noticed, what was cut is a prefix.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/crc32c.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/recording_writer.hpp>

#include "recording_support.hpp"

namespace sluice::replay {
namespace {

using format::Kind;
using format::page_size;
namespace page = format::page;
using test::TempFolder;
using testing::HasSubstr;

/// Two ranks, `steps` steps of two microbatches with hashes; rank 1 deviates once a step, and one of its
/// actions was given a value.
void write_small(const std::string& path, int steps) {
  RecordingWriter writer(path, test::small_header(2));
  for (int r = 0; r < 2; ++r) {
    test::append_order(writer.rank(RankId(r)), test::fill_and_drain(StageId(r), 2), 2);
  }
  for (int step = 0; step < steps; ++step) {
    writer.make_room(4);
    for (int r = 0; r < 2; ++r) {
      auto& rank = writer.rank(RankId(r));
      rank.append(Kind::step, static_cast<std::uint64_t>(step));
      for (int position = 0; position < 4; ++position) {
        if (r == 1 && position == 1) {  // 1B0 before 1F1
          rank.append(Kind::enter,
                      code_of(Action(StageId(1), Phase::backward, MicrobatchId(0)), 2));
        } else {
          rank.append_planned();
        }
        if (r == 1 && position == 2) {
          rank.append_bytes(Kind::inbound, std::array{std::byte{0}, std::byte{1}, std::byte{3},
                                                      std::byte{'a'}, std::byte{'b'}});
          rank.append_bytes(Kind::inbound_more,
                            std::array{static_cast<std::byte>('0' + step % 10)});
        }
        rank.append_hash(Kind::exit, static_cast<std::uint64_t>(1000 * step + 10 * r + position));
      }
      rank.append_bytes(Kind::committed, std::array{std::byte(r)});
    }
    for (int r = 0; r < 2; ++r) writer.rank(RankId(r)).append(Kind::done);
    std::array<std::byte, format::longest_varint> fields;
    const std::byte* end = format::put_varint(fields.data(), static_cast<std::uint64_t>(step));
    writer.run().append_bytes(Kind::step_ended, std::span(fields.data(), end));
  }
  writer.close();
}

std::string small_sequence(const RecordedStep& step, std::size_t rank) {
  std::string text;
  for (const Event& event : step.ranks[rank]) {
    if (event.kind == Event::Kind::enter) text += to_string(event.action) + ' ';
  }
  return text;
}

TEST(Recording, Crc32cIsCastagnolis) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(digits))), 0xE3069283U);
  std::vector<std::byte> bytes(100);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const auto part = std::span(bytes).first(size);
    EXPECT_EQ(crc32c(part), crc32c_portable(part)) << size;
  }
}

TEST(Recording, WhatWasWrittenIsRead) {
  const TempFolder folder;
  write_small(folder.file("a"), 3);
  const auto recording = Recording::open(folder.file("a"));

  EXPECT_TRUE(recording->closed());
  EXPECT_TRUE(recording->remarks().empty());
  EXPECT_EQ(recording->header().ranks, 2);
  EXPECT_EQ(recording->header().stages, 2);
  EXPECT_EQ(recording->header().mode, RecordingMode::verify);
  EXPECT_EQ(recording->header().identity, R"({"compiler": "test"})");
  EXPECT_EQ(recording->header().run_id[15], 16);
  ASSERT_EQ(recording->steps(), 3U);
  for (std::size_t k = 0; k < 3; ++k) {
    const RecordedStep step = recording->step(k);
    EXPECT_TRUE(step.complete);
    EXPECT_EQ(step.number, static_cast<std::int64_t>(k));
    EXPECT_EQ(step.error, "");
    EXPECT_EQ(step.first_seq, 1 + 16 * static_cast<std::int64_t>(k));
    EXPECT_EQ(small_sequence(step, 0), "0F0 0F1 0B0 0B1 ");
    EXPECT_EQ(small_sequence(step, 1), "1F0 1B0 1F1 1B1 ");
    const Event& second_exit = step.ranks[1][3];
    EXPECT_EQ(second_exit.kind, Event::Kind::exit);
    EXPECT_EQ(second_exit.hash, 1000 * k + 11);
    EXPECT_EQ(step.ranks[0].back().kind, Event::Kind::committed);
    ASSERT_EQ(step.inbound[1].size(), 1U);
    EXPECT_EQ(to_string(step.inbound[1][0].action), "1F1");
    EXPECT_EQ(step.inbound[1][0].bytes(), fmt::format("ab{}", k));
  }
}

TEST(Recording, PlannedEventsGrowInPlace) {
  const TempFolder folder;
  {
    RecordingWriter writer(folder.file("a"), test::small_header(1));
    test::append_order(writer.rank(RankId(0)), test::fill_and_drain(StageId(0), 200), 1);
    auto& rank = writer.rank(RankId(0));
    rank.append(Kind::step, 0);
    for (int i = 0; i < 2 * 400; ++i) rank.append_planned();
    rank.append(Kind::done);
    writer.run().append_bytes(Kind::step_ended, std::array{std::byte(0)});
    writer.close();
  }
  const auto recording = Recording::open(folder.file("a"));
  ASSERT_EQ(recording->steps(), 1U);
  EXPECT_EQ(recording->step(0).ranks[0].size(), 800U);
  EXPECT_TRUE(recording->step(0).complete);
  EXPECT_EQ(std::filesystem::file_size(folder.file("a")) / page_size, 5U);
}

TEST(Recording, UnclosedIsReadToItsEnd) {
  const TempFolder folder;
  {
    RecordingWriter writer(folder.file("a"), test::small_header(2));
    for (int r = 0; r < 2; ++r) {
      test::append_order(writer.rank(RankId(r)), test::fill_and_drain(StageId(r), 2), 2);
      writer.rank(RankId(r)).append(Kind::step, 7);
    }
    writer.rank(RankId(0)).append_planned();
    writer.rank(RankId(0)).append_planned();
    writer.rank(RankId(1)).append_planned();
  }
  const auto recording = Recording::open(folder.file("a"));
  EXPECT_FALSE(recording->closed());
  ASSERT_EQ(recording->steps(), 1U);
  const RecordedStep step = recording->step(0);
  EXPECT_FALSE(step.complete);
  EXPECT_EQ(step.number, 7);
  ASSERT_EQ(step.ranks[0].size(), 2U);
  ASSERT_EQ(step.ranks[1].size(), 1U);
  EXPECT_EQ(step.ranks[1][0].lamport, 3);  // after 0F0's exit
}

TEST(Recording, AnIncompleteStepIsCausallyClosed) {
  const TempFolder folder;
  {
    RecordingWriter writer(folder.file("a"), test::small_header(2));
    for (int r = 0; r < 2; ++r) {
      test::append_order(writer.rank(RankId(r)), test::fill_and_drain(StageId(r), 2), 2);
      writer.rank(RankId(r)).append(Kind::step, 0);
    }
    // Rank 0's stream ends before the 0F1 whose output rank 1 took.
    for (int i = 0; i < 3; ++i) writer.rank(RankId(0)).append_planned();
    for (int i = 0; i < 4; ++i) writer.rank(RankId(1)).append_planned();
  }
  const RecordedStep step = Recording::open(folder.file("a"))->step(0);
  EXPECT_EQ(step.ranks[0].size(), 3U);
  EXPECT_EQ(step.ranks[1].size(), 2U);
}

TEST(Recording, UnknownKindsAreSkipped) {
  const TempFolder folder;
  write_small(folder.file("a"), 1);
  const auto reference = Recording::open(folder.file("a"))->step(0);
  {
    RecordingWriter writer(folder.file("b"), test::small_header(1));
    test::append_order(writer.rank(RankId(0)), test::fill_and_drain(StageId(0), 1), 1);
    auto& rank = writer.rank(RankId(0));
    rank.append(Kind::step, 0);
    rank.append_planned();
  }
  auto bytes = test::bytes_of(folder.file("b"));
  // Behind the last record of rank 0's page: one of each wire, of kind 63.
  const std::size_t page = 3 * page_size;
  std::size_t end = page + page_size;
  while (bytes[end - 1] == std::byte{0}) --end;
  const auto add = [&](std::initializer_list<int> values) {
    for (const int value : values) bytes[end++] = static_cast<std::byte>(value);
  };
  add({0x3F, 0x81});
  add({0x7F, 0x85, 0x01, 0x81});
  add({0xBF, 0x02, 0xAA, 0xBB, 0x81});
  add({0xFF, 1, 2, 3, 4, 5, 6, 7, 8, 0x81});
  add({0x43, 1, 0x81});  // planned
  const auto recording = Recording::parse(bytes, "b");
  ASSERT_EQ(recording->step(0).ranks[0].size(), 2U);
  EXPECT_EQ(recording->step(0).ranks[0][1].kind, Event::Kind::exit);
}

/// `bytes` with both copies of the header changed, and their checksums right.
std::vector<std::byte> with_header(std::vector<std::byte> bytes, std::size_t at,
                                   std::uint8_t value) {
  for (std::size_t copy = 0; copy < 2; ++copy) {
    std::byte* page = bytes.data() + copy * page_size;
    page[at] = static_cast<std::byte>(value);
    format::put<std::uint32_t>(page + format::header::crc, 0);
    format::put(page + format::header::crc, crc32c(std::span(page, page_size)));
  }
  return bytes;
}

TEST(Recording, AnotherMajorVersionIsRefusedByName) {
  const TempFolder folder;
  write_small(folder.file("a"), 1);
  const auto bytes = with_header(test::bytes_of(folder.file("a")), 8, 2);
  try {
    Recording::parse(bytes, "a");
    FAIL();
  } catch (const RecordingError& error) {
    EXPECT_EQ(error.kind(), RecordingError::Kind::unsupported);
    EXPECT_THAT(error.what(),
                HasSubstr(fmt::format("expected 1.x, found 2.{}", format::minor_version)));
  }
}

TEST(Recording, ALaterMinorVersionIsRead) {
  const TempFolder folder;
  write_small(folder.file("a"), 1);
  const auto bytes = with_header(test::bytes_of(folder.file("a")), 10, 9);
  EXPECT_EQ(Recording::parse(bytes, "a")->steps(), 1U);
}

TEST(Recording, UnknownRequiredFeaturesAreRefusedByName) {
  const TempFolder folder;
  write_small(folder.file("a"), 1);
  const auto bytes = with_header(test::bytes_of(folder.file("a")), 16, 0x24);
  try {
    Recording::parse(bytes, "a");
    FAIL();
  } catch (const RecordingError& error) {
    EXPECT_EQ(error.kind(), RecordingError::Kind::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("feature bits 2, 5"));
  }
}

TEST(Recording, NotARecording) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, 3 * page_size}) {
    try {
      Recording::parse(std::vector<std::byte>(size, std::byte{'x'}), "notes.txt");
      FAIL() << size;
    } catch (const RecordingError& error) {
      EXPECT_EQ(error.kind(), RecordingError::Kind::not_a_recording);
      EXPECT_THAT(error.what(), HasSubstr("notes.txt"));
    }
  }
  EXPECT_THROW(Recording::open("/nonexistent/recording"), RecordingError);
  EXPECT_THROW(Recording::open("/tmp"), RecordingError);
}

/// Whether `part` holds nothing but a beginning of what `whole` holds.
bool is_prefix(const Recording& part, const Recording& whole) {
  if (part.steps() > whole.steps()) return false;
  for (std::size_t k = 0; k < part.steps(); ++k) {
    const RecordedStep a = part.step(k);
    const RecordedStep b = whole.step(k);
    if (a.number != b.number || a.error != (a.complete ? b.error : "")) return false;
    for (std::size_t r = 0; r < a.ranks.size(); ++r) {
      if (a.ranks[r].size() > b.ranks[r].size()) return false;
      if (a.complete && a.ranks[r].size() != b.ranks[r].size()) return false;
      for (std::size_t i = 0; i < a.ranks[r].size(); ++i) {
        const Event& x = a.ranks[r][i];
        const Event& y = b.ranks[r][i];
        if (x.kind != y.kind || x.action != y.action || x.hash != y.hash || x.hashed != y.hashed ||
            x.lamport != y.lamport) {
          return false;
        }
      }
      if (a.inbound[r].size() > b.inbound[r].size()) return false;
      if (a.complete && a.inbound[r].size() != b.inbound[r].size()) return false;
      for (std::size_t i = 0; i < a.inbound[r].size(); ++i) {
        if (a.inbound[r][i].action != b.inbound[r][i].action) return false;
        if (a.inbound[r][i].bytes() != b.inbound[r][i].bytes()) return false;
      }
    }
  }
  return true;
}

/// 64 KiB.
constexpr int steps_of_a_long_file = 330;

TEST(Recording, CutAtEveryOffset) {
  const TempFolder folder;
  write_small(folder.file("a"), steps_of_a_long_file);
  const auto bytes = test::bytes_of(folder.file("a"));
  const auto whole = Recording::parse(bytes, "a");
  ASSERT_GE(bytes.size(), 64U * 1024);
  std::size_t steps = 0;
  int prefixes = 0;
  // Every offset near a border of pages, and a sample in between: all of them when that is asked for.
  const bool all = std::getenv("SLUICE_EVERY_OFFSET") != nullptr;
  for (std::size_t size = 0; size < bytes.size();
       size += all || size % page_size < 70 || size % page_size > page_size - 3 ? 1 : 61) {
    try {
      const auto part = Recording::parse({bytes.begin(), bytes.begin() + size}, "a");
      ++prefixes;
      EXPECT_FALSE(part->closed()) << size;
      // What is left of a page that was cut is not read, so nothing changes before the next border.
      if (size % page_size == 0) {
        EXPECT_TRUE(is_prefix(*part, *whole)) << size;
        EXPECT_GE(part->steps(), steps) << size;
        steps = part->steps();
      }
      ASSERT_EQ(part->steps(), steps) << size;
    } catch (const RecordingError& error) {
      ASSERT_LT(size, 3 * page_size) << error.what();
    }
  }
  EXPECT_GT(steps, 200U);
  EXPECT_GT(prefixes, 1000);
}

/// Changes each byte of [begin, end), one after the other; `check` says what reading it then must do.
template <class Check>
void change_each(std::vector<std::byte> bytes, std::size_t begin, std::size_t end, Check&& check) {
  std::uint8_t change = 1;
  for (std::size_t i = begin; i < end; ++i) {
    const std::byte was = bytes[i];
    change = static_cast<std::uint8_t>(change << 1 | change >> 7);
    bytes[i] ^= static_cast<std::byte>(change);
    check(i, bytes);
    bytes[i] = was;
  }
}

TEST(Recording, EveryChangedByteBehindTheHeaderIsRefused) {
  const TempFolder folder;
  write_small(folder.file("a"), steps_of_a_long_file);
  const auto bytes = test::bytes_of(folder.file("a"));
  ASSERT_GE(bytes.size(), 64U * 1024);
  change_each(bytes, 2 * page_size, bytes.size(), [](std::size_t i, const auto& changed) {
    EXPECT_THROW(Recording::parse(changed, "a"), RecordingError) << i;
  });
}

TEST(Recording, EitherCopyOfTheHeaderMayBeDamaged) {
  const TempFolder folder;
  write_small(folder.file("a"), 2);
  const auto bytes = test::bytes_of(folder.file("a"));
  const auto whole = Recording::parse(bytes, "a");
  change_each(bytes, 0, 2 * page_size, [&whole](std::size_t i, const auto& changed) {
    const auto recording = Recording::parse(changed, "a");
    ASSERT_EQ(recording->remarks().size(), 1U) << i;
    EXPECT_THAT(recording->remarks()[0], HasSubstr("copy " + std::to_string(i / page_size)));
    EXPECT_TRUE(is_prefix(*recording, *whole) && is_prefix(*whole, *recording)) << i;
  });
}

TEST(Recording, ZeroedBytesAreNoticedOrEndTheRecording) {
  const TempFolder folder;
  write_small(folder.file("a"), 100);
  const auto bytes = test::bytes_of(folder.file("a"));
  const auto whole = Recording::parse(bytes, "a");
  for (std::size_t start = 2 * page_size; start < bytes.size(); start += page_size) {
    for (const std::size_t size : {std::size_t{2}, std::size_t{4}, std::size_t{32}, page_size}) {
      for (const std::size_t at : {std::size_t{0}, page::used, page::crc, page::records}) {
        if (at + size > page_size) continue;
        auto changed = bytes;
        std::fill_n(changed.begin() + start + at, size, std::byte{0});
        if (changed == bytes) continue;
        try {
          const auto part = Recording::parse(changed, "a");
          EXPECT_FALSE(part->closed()) << start + at << '+' << size;
          EXPECT_TRUE(is_prefix(*part, *whole)) << start + at << '+' << size;
        } catch (const RecordingError&) {
        }
      }
    }
  }
}

/// One rank's stream over several pages, left as by a killed process.
std::vector<std::byte> unclosed(const TempFolder& folder) {
  {
    RecordingWriter writer(folder.file("unclosed"), test::small_header(1));
    auto& rank = writer.rank(RankId(0));
    test::append_order(rank, test::fill_and_drain(StageId(0), 500), 1);
    rank.append(Kind::step, 0);
    for (std::uint64_t i = 0; i < 1000; ++i) {
      rank.append_planned();
      rank.append_hash(Kind::exit, i);
    }
  }
  return test::bytes_of(folder.file("unclosed"));
}

TEST(Recording, ALostPageIsNoticedEvenUnclosed) {
  const TempFolder folder;
  auto bytes = unclosed(folder);
  EXPECT_EQ(Recording::parse(bytes, "a")->step(0).ranks[0].size(), 2000U);
  std::fill_n(bytes.begin() + 4 * page_size, page_size, std::byte{0});
  EXPECT_THROW(Recording::parse(bytes, "a"), RecordingError);
}

TEST(Recording, ATornRecordEndsItsStream) {
  const TempFolder folder;
  auto bytes = unclosed(folder);
  std::size_t end = bytes.size();
  while (bytes[end - 1] == std::byte{0}) --end;
  // The commit byte of the last record: missing, or of another use of the page.
  for (const int commit : {0, 0x82}) {
    bytes[end - 1] = static_cast<std::byte>(commit);
    const auto recording = Recording::parse(bytes, "a");
    EXPECT_EQ(recording->step(0).ranks[0].size(), 1999U);
    ASSERT_EQ(recording->remarks().size(), 1U);
    EXPECT_THAT(recording->remarks()[0], HasSubstr("torn"));
  }
}

TEST(Recording, BytesBehindTheEndAreNoticed) {
  const TempFolder folder;
  write_small(folder.file("a"), 2);
  auto bytes = test::bytes_of(folder.file("a"));
  bytes.push_back(std::byte{0});
  EXPECT_THROW(Recording::parse(bytes, "a"), RecordingError);
  bytes.resize(bytes.size() - 1 + page_size);
  EXPECT_THROW(Recording::parse(bytes, "a"), RecordingError);
}

TEST(Recording, SwappedPagesAreNoticed) {
  const TempFolder folder;
  write_small(folder.file("a"), 100);
  const auto bytes = test::bytes_of(folder.file("a"));
  const std::size_t pages = bytes.size() / page_size;
  for (std::size_t a = 3; a < pages; ++a) {
    for (std::size_t b = a + 1; b < pages; ++b) {
      auto changed = bytes;
      std::swap_ranges(changed.begin() + a * page_size, changed.begin() + (a + 1) * page_size,
                       changed.begin() + b * page_size);
      EXPECT_THROW(Recording::parse(changed, "a"), RecordingError) << a << ' ' << b;
    }
  }
}

}  // namespace
}  // namespace sluice::replay
