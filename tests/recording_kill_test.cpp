// A killed process loses nothing that it had appended, and leaves nothing torn.
//
// A child appends events whose hashes count up, and publishes after each append how many there are. The
// parent kills it at a random moment and reads the file. Forks before any thread exists.

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sluice/random.hpp>
#include <sluice/replay/recording.hpp>
#include <sluice/replay/recording_writer.hpp>

#include "recording_support.hpp"

namespace sluice::replay {
namespace {

using format::Kind;

constexpr int actions_a_step = 40;

/// Who appends first: forwards go from rank 0 to rank 1, backwards the other way.
constexpr std::size_t turn_of(std::size_t rank, std::size_t action) {
  return action < actions_a_step / 2 ? rank : 1 - rank;
}

enum class Kept { runs, hashes, ring };

/// What the running action was given, in two parts: a number.
void append_value(RecordStream& rank, std::uint64_t number) {
  std::array<std::byte, 8> bytes;
  format::put(bytes.data(), number);
  rank.append_bytes(Kind::inbound, std::array{std::byte{0}, std::byte{1}, std::byte{8}});
  rank.append_bytes(Kind::inbound_more, bytes);
}

/// Two ranks in turn, hashed or as runs of planned events; waits for its end when it has not come for long.
[[noreturn]] void append_until_killed(const std::string& path, Kept kept,
                                      std::atomic<std::uint64_t>& published) {
  const bool hashed = kept != Kept::runs;
  RecordingHeader header = test::small_header(2);
  if (kept == Kept::ring) {
    header.mode = RecordingMode::ring;
    header.ring_pages = 4;
  }
  RecordingWriter writer(path, header);
  for (int r = 0; r < 2; ++r) {
    test::append_order(writer.rank(RankId(r)), test::fill_and_drain(StageId(r), actions_a_step / 2),
                       2);
  }
  std::uint64_t events = 0;
  for (std::uint64_t step = 0;; ++step) {
    while (events > 200'000) ::pause();
    writer.make_room(8);
    for (int r = 0; r < 2; ++r) {
      auto& rank = writer.rank(RankId(r));
      if (kept == Kept::ring && step > 0) {
        test::append_order(rank, test::fill_and_drain(StageId(r), actions_a_step / 2), 2);
      }
      rank.append(Kind::step, step);
    }
    for (std::size_t i = 0; i < actions_a_step; ++i) {
      for (std::size_t turn = 0; turn < 2; ++turn) {
        auto& rank = writer.rank(RankId(static_cast<int>(turn_of(turn, i))));
        rank.append_planned();
        published.store(++events, std::memory_order_release);
        if (kept == Kept::ring) append_value(rank, events);
        if (hashed) {
          rank.append_hash(Kind::exit, events);
        } else {
          rank.append_planned();
        }
        published.store(++events, std::memory_order_release);
      }
    }
    for (int r = 0; r < 2; ++r) writer.rank(RankId(r)).append(Kind::done);
    std::array<std::byte, format::longest_varint> fields;
    const std::byte* end = format::put_varint(fields.data(), step);
    writer.run().append_bytes(Kind::step_ended, std::span(fields.data(), end));
    if (step % 2 == 1) writer.seal_full_pages();
  }
}

/// Events up to the end of the file, checked one by one as far as they are there.
std::uint64_t events_of(const Recording& recording, bool hashed) {
  const auto first = static_cast<std::uint64_t>(recording.first_step());
  std::uint64_t events = first * 4 * actions_a_step;
  for (std::size_t k = 0; k < recording.steps(); ++k) {
    const RecordedStep step = recording.step(k);
    EXPECT_TRUE(step.complete || k + 1 == recording.steps());
    for (std::size_t r = 0; r < 2; ++r) {
      events += step.ranks[r].size();
      if (!hashed) continue;
      for (std::size_t i = 1; i < step.ranks[r].size(); i += 2) {
        const std::uint64_t expected =
            (first + k) * 4 * actions_a_step + 4 * (i / 2) + 2 * turn_of(r, i / 2) + 1;
        EXPECT_EQ(step.ranks[r][i].hash, expected);
        if (recording.header().mode != RecordingMode::ring) continue;
        const std::string given = step.inbound[r].at(i / 2).bytes();
        EXPECT_EQ(format::get<std::uint64_t>(reinterpret_cast<const std::byte*>(given.data())),
                  expected);
      }
    }
  }
  return events;
}

TEST(RecordingKill, NothingAppendedIsLost) {
  void* shared = ::mmap(nullptr, sizeof(std::atomic<std::uint64_t>), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& published = *new (shared) std::atomic<std::uint64_t>(0);
  KeyedRandom random(1, 0, "kill", 0, "moment");

  const char* asked = std::getenv("SLUICE_KILLS");  // for a longer look
  const int kills = asked != nullptr ? std::atoi(asked) : 300;
  std::uint64_t most = 0;
  int late = 0;
  for (int kill = 0; kill < kills; ++kill) {
    const test::TempFolder folder;
    const auto kept = static_cast<Kept>(kill % 3);
    published = 0;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        append_until_killed(folder.file("a"), kept, published);
      } catch (...) {
        ::_exit(1);
      }
    }
    const std::uint64_t moment = 1 + random.below(20000);
    while (published.load(std::memory_order_acquire) < moment) {
      ASSERT_EQ(::waitpid(child, nullptr, WNOHANG), 0);
    }
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));

    const auto recording = Recording::open(folder.file("a"));
    EXPECT_FALSE(recording->closed());
    EXPECT_TRUE(recording->remarks().empty()) << recording->remarks().front();
    const std::uint64_t events = events_of(*recording, kept != Kept::runs);
    late += recording->begins_late();
    const std::uint64_t known = published.load(std::memory_order_acquire);
    // The one event that may have been appended and not yet published.
    EXPECT_GE(events, known);
    EXPECT_LE(events, known + 1);
    most = std::max(most, known);
  }
  EXPECT_GT(most, 1000U);
  EXPECT_GT(late, kills / 6);  // rings that had come round
  ::munmap(shared, sizeof(std::atomic<std::uint64_t>));
}

}  // namespace
}  // namespace sluice::replay
