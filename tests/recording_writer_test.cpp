// What the writer does where files are not as it would have them: names that are taken, disks that are
// full, others who write to or cut the same file.

#include <array>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <sluice/replay/recording.hpp>
#include <sluice/replay/recording_writer.hpp>

#include "recording_support.hpp"

namespace sluice::replay {
namespace {

using format::Kind;
using format::page_size;
using test::TempFolder;
using testing::HasSubstr;

/// A step of one rank.
void append_step(RecordingWriter& writer, std::uint64_t number) {
  writer.make_room(2);
  auto& rank = writer.rank(RankId(0));
  if (number == 0) test::append_order(rank, test::fill_and_drain(StageId(0), 1), 1);
  rank.append(Kind::step, number);
  for (int i = 0; i < 4; ++i) rank.append_planned();
  rank.append(Kind::done);
  std::array<std::byte, 8> fields;
  writer.run().append_bytes(Kind::step_ended,
                            std::span(fields.data(), format::put_varint(fields.data(), number)));
}

/// What `act` throws, as text; empty when it throws nothing.
template <class Act>
std::string refusal_of(Act&& act) {
  try {
    act();
  } catch (const RecordingError& error) {
    EXPECT_EQ(error.kind(), RecordingError::Kind::io);
    return error.what();
  }
  return "";
}

TEST(RecordingWriter, AnExistingFileIsNotTouched) {
  const TempFolder folder;
  {
    RecordingWriter old(folder.file("a"), test::small_header(1));
    old.close();
  }
  const auto before = test::bytes_of(folder.file("a"));
  EXPECT_THAT(refusal_of([&] { RecordingWriter writer(folder.file("a"), test::small_header(1)); }),
              HasSubstr("choose another name"));
  EXPECT_EQ(test::bytes_of(folder.file("a")), before);
}

TEST(RecordingWriter, AFolderThatCannotBeWritten) {
  // Whoever has all rights may write everywhere but here.
  const std::string path = ::geteuid() == 0 ? "/proc/recording" : "/recording";
  EXPECT_THAT(refusal_of([&] { RecordingWriter writer(path, test::small_header(1)); }),
              HasSubstr("creating the file"));
}

TEST(RecordingWriter, AFullDiskLosesNothingThatWasAppended) {
  const TempFolder folder;
  RecordingWriter writer(folder.file("a"), test::small_header(1));
  std::size_t steps = 0;
  const test::FileSizeLimit limit(1 << 20);
  const auto append = [&] {
    for (;; ++steps) append_step(writer, steps);
  };
  EXPECT_THAT(refusal_of(append), HasSubstr("disk space"));
  EXPECT_GT(steps, 10000U);
  EXPECT_EQ(Recording::open(folder.file("a"))->steps(), steps);
  writer.close();
  EXPECT_EQ(Recording::open(folder.file("a"))->steps(), steps);
  EXPECT_TRUE(Recording::open(folder.file("a"))->closed());
}

TEST(RecordingWriter, AFullDiskAtTheStartLeavesNoFile) {
  const TempFolder folder;
  const test::FileSizeLimit limit(page_size);
  EXPECT_THROW(RecordingWriter(folder.file("a"), test::small_header(1)), RecordingError);
  EXPECT_FALSE(std::filesystem::exists(folder.file("a")));
}

TEST(RecordingWriter, ARunThatGoesOnKeepsItsFile) {
  const TempFolder folder;
  RecordingWriter first(folder.file("a"), test::small_header(1));
  append_step(first, 0);
  const auto replace = [&] {
    RecordingWriter second(folder.file("a"), test::small_header(1), true);
  };
  EXPECT_THAT(refusal_of(replace), HasSubstr("another run records into it"));
  append_step(first, 1);
  first.close();
  EXPECT_EQ(Recording::open(folder.file("a"))->steps(), 2U);
  EXPECT_EQ(refusal_of(replace), "");
  EXPECT_EQ(Recording::open(folder.file("a"))->steps(), 0U);
}

TEST(RecordingWriter, OnlyARecordingIsReplaced) {
  const TempFolder folder;
  std::ofstream(folder.file("a")) << "the notes of last night";
  const auto before = test::bytes_of(folder.file("a"));
  for (const std::string& name : {folder.file("a"), folder.path().string()}) {
    EXPECT_THAT(refusal_of([&] { RecordingWriter writer(name, test::small_header(1), true); }),
                HasSubstr("something else"));
  }
  EXPECT_EQ(test::bytes_of(folder.file("a")), before);
}

TEST(RecordingWriter, AnOldRecordingStaysWhereTheNewOneCannotBeMade) {
  const TempFolder folder;
  const std::string file = folder.file("a");
  RecordingWriter(file, test::small_header(1)).close();
  const auto before = test::bytes_of(file);
  {
    const test::FileSizeLimit limit(8'000);
    EXPECT_THAT(refusal_of([&] { RecordingWriter(file, test::small_header(1), true); }),
                HasSubstr("File too large"));
  }
  EXPECT_EQ(test::bytes_of(file), before);
  const std::filesystem::directory_iterator all(folder.path());
  EXPECT_EQ(std::distance(begin(all), end(all)), 1) << "something was left beside it";
}

TEST(RecordingWriter, OfSeveralWhoWouldReplaceARecordingOneDoes) {
  const TempFolder folder;
  const std::string file = folder.file("a");
  RecordingWriter(file, test::small_header(1)).close();
  std::atomic<int> writing{0};
  std::atomic<int> replaced{0};
  const auto replace = [&] {
    for (int i = 0; i < 1500; ++i) {
      try {
        RecordingWriter writer(file, test::small_header(1), true);
        EXPECT_EQ(writing.fetch_add(1), 0) << "two hold the file";
        ++replaced;
        const auto mine = std::filesystem::last_write_time(file);
        for (int k = 0; k < i % 20; ++k) std::this_thread::yield();
        EXPECT_EQ(std::filesystem::last_write_time(file), mine);
        writing.fetch_sub(1);
      } catch (const RecordingError& error) {
        EXPECT_THAT(error.what(), HasSubstr("another run records into it"));
      }
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back(replace);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(replaced.load(), 0);
}

TEST(RecordingWriter, AFileThatSomebodyHasCutEndsTheRecordingBetweenSteps) {
  const TempFolder folder;
  RecordingWriter writer(folder.file("a"), test::small_header(1));
  append_step(writer, 0);
  std::filesystem::resize_file(folder.file("a"), 3 * page_size);
  EXPECT_THAT(refusal_of([&] { append_step(writer, 1); }), HasSubstr("somebody has cut it"));
}

}  // namespace
}  // namespace sluice::replay
