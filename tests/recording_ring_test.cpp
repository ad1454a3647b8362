// A ring keeps the newest events: what is left of a long run is what its log says, to the last event.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/replay/causal_order.hpp>

#include "recorded_run.hpp"
#include "recording_support.hpp"

namespace sluice::replay {
namespace {

using test::run_toy;
using test::TempFolder;
using test::ToyRun;

struct Ring {
  test::ToyOutcome outcome;
  std::vector<std::byte> bytes;
};

/// Records `run` in a ring of the smallest size.
Ring recorded_in_a_ring(const ToyRun& run, bool close = true) {
  const TempFolder folder;
  RecorderOptions options;
  options.mode = RecordingMode::ring;
  options.ring_bytes = 0;
  options.run_id = {};
  auto recorder =
      std::make_shared<Recorder>(folder.file("a"), derive_plan(run.config), nullptr, options);
  Ring ring;
  ring.outcome = run_toy(run, recorder, {0, 3});
  if (close) recorder->close();
  ring.bytes = test::bytes_of(folder.file("a"));
  return ring;
}

ToyRun long_run(int steps) {
  ToyRun run;
  run.config = test::toy_config(3, 6, OrderMode::adaptive);
  run.steps = steps;
  return run;
}

/// The steps that are left are those of the run, and go to its end.
void expect_newest(const Recording& recording, const test::ToyOutcome& outcome) {
  ASSERT_GT(recording.steps(), 0U);
  std::int64_t lines = 0;
  for (std::size_t k = 0; k < outcome.logs.size(); ++k) {
    const auto number = static_cast<std::int64_t>(k);
    if (number >= recording.first_step()) {
      const auto step = recording.step(static_cast<std::size_t>(number - recording.first_step()));
      EXPECT_EQ(step.number, number);
      EXPECT_EQ(step.first_seq, 1 + lines);
      EXPECT_EQ(step.complete && step.error.empty(), outcome.errors[k].empty());
      auto unhashed = outcome.logs[k];
      for (Event& event : unhashed) {
        event.hash = 0;
        event.hashed = false;
      }
      EXPECT_TRUE(test::same_events(merge_events(step.ranks), unhashed)) << k;
    }
    lines += std::count_if(outcome.logs[k].begin(), outcome.logs[k].end(), is_logged);
  }
  EXPECT_EQ(recording.first_step() + static_cast<std::int64_t>(recording.steps()),
            static_cast<std::int64_t>(outcome.logs.size()));
}

TEST(RecordingRing, AShortRunIsThereFromItsStart) {
  const auto ring = recorded_in_a_ring(long_run(10));
  const auto recording = Recording::parse(ring.bytes, "ring");
  EXPECT_FALSE(recording->begins_late());
  EXPECT_TRUE(recording->closed());
  EXPECT_EQ(recording->first_step(), 0);
  EXPECT_EQ(recording->header().mode, RecordingMode::ring);
  EXPECT_LT(ring.bytes.size(), 12U * format::page_size);
  expect_newest(*recording, ring.outcome);
  EXPECT_EQ(test::replay_toy(long_run(10), recording, {2, 5}).replayer->verdict(), Verdict::same);
}

TEST(RecordingRing, OfALongRunTheNewestIsLeft) {
  for (const int steps : {600, 1000, 5000}) {
    const auto ring = recorded_in_a_ring(long_run(steps));
    const auto recording = Recording::parse(ring.bytes, "ring");
    EXPECT_TRUE(recording->begins_late());
    EXPECT_TRUE(recording->closed());
    EXPECT_TRUE(recording->remarks().empty());
    EXPECT_GT(recording->first_step(), 0);
    EXPECT_LT(ring.bytes.size(), 64U * format::page_size);
    expect_newest(*recording, ring.outcome);
  }
}

TEST(RecordingRing, OnAFullDiskItGoesOnInThePagesItHas) {
  const TempFolder folder;
  const ToyRun run = long_run(3000);
  RecorderOptions options;
  options.mode = RecordingMode::ring;
  auto recorder =
      std::make_shared<Recorder>(folder.file("a"), derive_plan(run.config), nullptr, options);
  constexpr std::size_t most = 50 * format::page_size;
  const test::FileSizeLimit limit(most);
  const auto outcome = run_toy(run, recorder, {0, 3});
  EXPECT_EQ(recorder->failure(), std::nullopt);
  recorder->close();
  EXPECT_LE(test::bytes_of(folder.file("a")).size(), most);
  const auto recording = Recording::open(folder.file("a"));
  EXPECT_TRUE(recording->closed());
  EXPECT_TRUE(recording->begins_late());
  expect_newest(*recording, outcome);
  EXPECT_LT(recording->first_step(), 2900);
}

TEST(RecordingRing, WhatAFullDiskLeavesHasToHoldAFewSteps) {
  const TempFolder folder;
  RecordingHeader header = test::small_header(1);
  header.mode = RecordingMode::ring;
  header.ring_pages = 100;
  RecordingWriter writer(folder.file("a"), header);
  const test::FileSizeLimit limit(34 * format::page_size);
  const auto append = [&](std::size_t least) {
    for (std::uint64_t i = 0; i < 50'000; ++i) {
      writer.make_room(2, least);
      writer.rank(RankId(0)).append_hash(format::Kind::exit, i);
      writer.run().append_hash(format::Kind::exit, i);
    }
  };
  EXPECT_THROW(append(16), RecordingError);
  EXPECT_NO_THROW(append(15));
  EXPECT_EQ(writer.ring_pages(), 15);
}

TEST(RecordingRing, AFailureIsItsLastStep) {
  ToyRun run = long_run(2000);
  int step = 0;
  run.on_enter = [&step](const Action& action) {
    if (to_string(action) == "0F0") ++step;
    if (to_string(action) == "1B3" && step == 2000) throw std::runtime_error("a bad sample");
  };
  const auto ring = recorded_in_a_ring(run);
  const auto recording = Recording::parse(ring.bytes, "ring");
  EXPECT_TRUE(recording->begins_late());
  expect_newest(*recording, ring.outcome);
  EXPECT_EQ(recording->step(recording->steps() - 1).error, "stage 1, mb 3, B failed: a bad sample");
}

TEST(RecordingRing, UnclosedItIsReadToItsEnd) {
  const auto ring = recorded_in_a_ring(long_run(777), false);
  const auto recording = Recording::parse(ring.bytes, "ring");
  EXPECT_FALSE(recording->closed());
  EXPECT_TRUE(recording->begins_late());
  EXPECT_TRUE(recording->remarks().empty());  // nothing of an earlier use behind the last record
  expect_newest(*recording, ring.outcome);
}

TEST(RecordingRing, APageThatWasBeingTakenHasFallenOff) {
  const auto ring = recorded_in_a_ring(long_run(1000), false);
  const auto whole = Recording::parse(ring.bytes, "ring");
  // Each page in turn as a process leaves it that is killed in the middle: marked as unused, half wiped.
  std::size_t read = 0;
  for (std::size_t at = 2 * format::page_size; at < ring.bytes.size(); at += format::page_size) {
    auto bytes = ring.bytes;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), 4, std::byte{0});
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at + format::page::records), 1000,
                std::byte{0});
    try {
      const auto recording = Recording::parse(bytes, "ring");
      ++read;
      ASSERT_GE(recording->first_step(), whole->first_step());
      for (std::size_t k = 0; k < recording->steps(); ++k) {
        const auto step = recording->step(k);
        const auto same = whole->step(static_cast<std::size_t>(step.number - whole->first_step()));
        if (!step.complete) continue;
        EXPECT_TRUE(test::same_events(merge_events(step.ranks), merge_events(same.ranks)));
      }
    } catch (const RecordingError&) {  // one from the middle is a hole
    }
  }
  EXPECT_GE(read, 3U);
}

TEST(RecordingRing, APageThatIsTakenAgainHoldsNothingOfItsEarlierUses) {
  namespace page = format::page;
  for (const int steps : {777, 1500, 2999}) {
    const auto bytes = recorded_in_a_ring(long_run(steps), false).bytes;
    int taken_again = 0;
    for (std::size_t at = 2 * format::page_size; at < bytes.size(); at += format::page_size) {
      const std::byte* start = bytes.data() + at;
      const auto epoch = std::to_integer<std::uint8_t>(start[page::epoch]);
      if (format::get<std::uint32_t>(start) == 0 || epoch < 2) continue;
      ++taken_again;
      std::size_t end = at + page::records;
      while (const auto record = format::take_record(bytes, end, at + format::page_size, epoch)) {
        EXPECT_EQ(bytes[record->end - 1], format::commit_of(epoch));
        end = record->end;
      }
      EXPECT_TRUE(std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(end),
                              bytes.begin() + static_cast<std::ptrdiff_t>(at + format::page_size),
                              [](std::byte byte) { return byte == std::byte{0}; }))
          << steps << " steps, page at " << at;
    }
    EXPECT_GE(taken_again, 2) << steps;
  }
}

TEST(RecordingRing, SaysFromWhichAnchorsItCanStillBeRunAgain) {
  const TempFolder folder;
  const ToyRun run = long_run(1500);
  RecorderOptions options;
  options.mode = RecordingMode::ring;
  options.ring_bytes = 0;
  options.payload_steps = 1;  // the ranks' streams lose their beginnings before the run's does
  auto recorder =
      std::make_shared<Recorder>(folder.file("a"), derive_plan(run.config), nullptr, options);
  std::int64_t step = 0;
  // The pipeline goes on over the pauses: a checkpoint is made between two steps.
  run_toy(run, recorder, {0, 3}, [&] {
    RecordedAnchor anchor;
    anchor.step = step;
    anchor.file = fmt::format("checkpoint-{}", step);
    if (step > 0 && step % 20 == 0) recorder->add_anchor(anchor);
    ++step;
    return true;
  });
  recorder->close();
  const auto recording = Recording::open(folder.file("a"));
  ASSERT_TRUE(recording->begins_late());
  const std::int64_t first = recording->first_step();
  ASSERT_LT(first, 1480);
  // The first at or behind the first step, then all; those before it are of no use.
  std::int64_t expected = (first + 19) / 20 * 20;
  for (const RecordedAnchor& anchor : recording->anchors()) {
    EXPECT_EQ(anchor.step, expected);
    EXPECT_EQ(anchor.file, fmt::format("checkpoint-{}", expected));
    expected += 20;
  }
  EXPECT_EQ(expected, 1500);
}

TEST(RecordingRing, EveryByteBehindTheHeaderCounts) {
  const auto ring = recorded_in_a_ring(long_run(600));
  for (std::size_t i = 2 * format::page_size; i < ring.bytes.size(); ++i) {
    auto bytes = ring.bytes;
    bytes[i] ^= std::byte{0x20};
    EXPECT_THROW(Recording::parse(bytes, "ring"), RecordingError) << i;
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RecordingRing, AStepThatDoesNotFitLeavesNothingAndSaysSo) {
  const TempFolder folder;
  RecordingHeader header = test::small_header(1);
  header.mode = RecordingMode::ring;
  header.ring_pages = 2;
  {
    RecordingWriter writer(folder.file("a"), header);
    test::append_order(writer.rank(RankId(0)), test::fill_and_drain(StageId(0), 1), 1);
    auto& rank = writer.rank(RankId(0));
    rank.append(format::Kind::step, 0);
    for (std::uint64_t i = 0; i < 3000; ++i) rank.append_hash(format::Kind::exit, i);
    writer.close();
  }
  const auto recording = Recording::open(folder.file("a"));
  EXPECT_TRUE(recording->begins_late());
  EXPECT_EQ(recording->steps(), 0U);
}

TEST(RecordingRing, StaleRecordsOfAnEarlierUseAreNotRead) {
  const TempFolder folder;
  RecordingHeader header = test::small_header(1);
  header.mode = RecordingMode::ring;
  header.ring_pages = 4;
  {
    RecordingWriter writer(folder.file("a"), header);
    auto& rank = writer.rank(RankId(0));
    for (std::uint64_t step = 0; step < 400; ++step) {
      test::append_order(rank, test::fill_and_drain(StageId(0), 20), 1);
      rank.append(format::Kind::step, step);
      for (int i = 0; i < 80; ++i) rank.append_planned();
      rank.append(format::Kind::done);
      std::array<std::byte, 8> fields;
      writer.run().append_bytes(format::Kind::step_ended,
                                std::span(fields.data(), format::put_varint(fields.data(), step)));
    }
  }
  const auto bytes = test::bytes_of(folder.file("a"));
  const auto recording = Recording::parse(bytes, "ring");
  ASSERT_TRUE(recording->begins_late());
  EXPECT_EQ(recording->first_step() + static_cast<std::int64_t>(recording->steps()), 400);
  // A record of another epoch behind the last one: torn, and never read.
  const std::size_t newest = [&bytes] {
    std::size_t found = 0;
    std::uint64_t most = 0;
    for (std::size_t at = 2 * format::page_size; at < bytes.size(); at += format::page_size) {
      const std::byte* page = bytes.data() + at;
      const auto first = format::get<std::uint64_t>(page + format::page::first_record);
      if (format::get<std::uint16_t>(page + format::page::stream) == 0 && first >= most) {
        most = first;
        found = at;
      }
    }
    return found;
  }();
  ASSERT_GT(std::to_integer<int>(bytes[newest + format::page::epoch]), 1);
  auto changed = bytes;
  std::size_t end = newest + format::page_size;
  while (changed[end - 1] == std::byte{0}) --end;
  changed[end] = format::tag_of(format::Kind::stopped);
  changed[end + 1] = format::commit_of(1);
  const auto again = Recording::parse(changed, "ring");
  EXPECT_EQ(again->steps(), recording->steps());
  ASSERT_EQ(again->remarks().size(), 1U);
  EXPECT_THAT(again->remarks()[0], testing::HasSubstr("torn"));
}

}  // namespace
}  // namespace sluice::replay
