// The values in a recording: what a failing action was given, in every mode, and what all actions of the
// last steps were given where that was asked for.

#include <atomic>
#include <bit>
#include <memory>
#include <new>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/plain_stage.hpp>
#include <sluice/replay/deterministic_executor.hpp>

#include "recorded_run.hpp"
#include "recording_support.hpp"

namespace sluice::test {

/// A value of any size. Its handles share what they show, which nobody changes.
struct Block {
  std::shared_ptr<const std::string> text;
};

/// The same without a second handle.
struct Lonely {
  std::unique_ptr<std::string> text;
};

/// No second handle can be had of the number that `refused` says.
struct Fragile {
  int number = 0;
  static inline int refused = 0;
};

}  // namespace sluice::test

namespace sluice {

template <>
struct WireTraits<test::Fragile> {
  static constexpr bool hashes = false;
  static test::Fragile keep(const test::Fragile& fragile) {
    if (fragile.number == test::Fragile::refused) throw std::bad_alloc();
    return fragile;
  }
  static std::string encode(const test::Fragile& fragile) { return std::to_string(fragile.number); }
};

template <>
struct WireTraits<test::Block> {
  static constexpr bool hashes = false;
  static test::Block keep(const test::Block& block) { return block; }
  static std::string encode(const test::Block& block) { return block.text ? *block.text : ""; }
};

template <>
struct WireTraits<test::Lonely> {
  static constexpr bool hashes = false;
  static std::string encode(const test::Lonely& lonely) { return lonely.text ? *lonely.text : ""; }
};

}  // namespace sluice

namespace sluice::replay {
namespace {

using test::Block;
using test::TempFolder;
using test::toy_config;
using test::ToyRun;
using Role = InboundValue::Role;

const std::array modes{RecordingMode::ring, RecordingMode::full, RecordingMode::verify};

/// Steps of `run` recorded in `mode`, and read again.
std::shared_ptr<const Recording> recorded(const ToyRun& run, RecorderOptions options) {
  const TempFolder folder;
  options.run_id = {};
  auto recorder =
      std::make_shared<Recorder>(folder.file("a"), derive_plan(run.config), nullptr, options);
  test::run_toy(run, recorder, {0, 3});
  EXPECT_EQ(recorder->not_saved(), 0);
  recorder->close();
  return Recording::open(folder.file("a"));
}

ToyRun failing_at(const std::string& action, int stages = 3) {
  ToyRun run;
  run.config = toy_config(stages, 6);
  run.steps = 2;
  run.on_enter = [action, step = std::make_shared<std::atomic<int>>(0)](const Action& entered) {
    *step += to_string(entered) == "0F0";
    if (*step == 2 && to_string(entered) == action) throw std::runtime_error("a bad sample");
  };
  return run;
}

RecorderOptions in(RecordingMode mode) {
  RecorderOptions options;
  options.mode = mode;
  return options;
}

/// What was given to the actions of a step, as text.
std::string values_of(const RecordedStep& step) {
  std::string text;
  for (const auto& rank : step.inbound) {
    for (const RecordedInbound& value : rank) {
      text += fmt::format("{} {} {}; ", to_string(value.action),
                          value.role == Role::input ? "input" : "target",
                          value.saved ? value.bytes() : "not saved");
    }
  }
  return text;
}

/// The output of `action`, by its hash in a recording of `verify`.
double output_of(const RecordedStep& step, const Action& action) {
  for (const auto& rank : step.ranks) {
    for (const Event& event : rank) {
      if (event.kind == Event::Kind::exit && event.action == action) {
        return std::bit_cast<double>(event.hash);
      }
    }
  }
  ADD_FAILURE() << to_string(action) << " has not run";
  return 0;
}

Action action_named(int stage, Phase phase, int mb) {
  return {StageId(stage), phase, MicrobatchId(mb)};
}

TEST(RecordedValues, WhatAFailingActionWasGivenIsThereInEveryMode) {
  const auto verified = recorded(failing_at("1F3"), in(RecordingMode::verify))->step(1);
  const double given = output_of(verified, action_named(0, Phase::forward, 3));
  for (const RecordingMode mode : modes) {
    const auto recording = recorded(failing_at("1F3"), in(mode));
    EXPECT_EQ(values_of(recording->step(0)), "");
    EXPECT_EQ(values_of(recording->step(1)), fmt::format("1F3 input {}; ", given));
    EXPECT_EQ(recording->step(1).error, "stage 1, mb 3, F failed: a bad sample");
    EXPECT_EQ(test::replay_toy(failing_at("1F3"), recording, {2, 5}).replayer->verdict(),
              Verdict::failed_as_recorded);
  }
}

TEST(RecordedValues, EveryPhaseIsGivenItsOwn) {
  using test::ToySource;
  const MicrobatchId second(1);
  const auto at_entrance = recorded(failing_at("0F1"), in(RecordingMode::full));
  EXPECT_EQ(values_of(at_entrance->step(1)),
            fmt::format("0F1 input {}; ", ToySource::input(1, second)));
  const auto at_end = recorded(failing_at("2F1"), in(RecordingMode::verify));
  EXPECT_EQ(values_of(at_end->step(1)),
            fmt::format("2F1 input {}; 2F1 target {}; ",
                        output_of(at_end->step(1), action_named(1, Phase::forward, 1)),
                        ToySource::target(1, second)));
  const auto backward = recorded(failing_at("1B1"), in(RecordingMode::verify));
  EXPECT_EQ(values_of(backward->step(1)),
            fmt::format("1B1 input {}; ",
                        output_of(backward->step(1), action_named(2, Phase::backward, 1))));
  ToyRun split = failing_at("1W1");
  split.config.schedule = ScheduleName::zb_h1;
  EXPECT_EQ(values_of(recorded(split, in(RecordingMode::full))->step(1)), "");
}

TEST(RecordedValues, OfTheLastStepsAllAreThere) {
  ToyRun run;
  run.config = toy_config(3, 6, OrderMode::adaptive);
  run.steps = 1200;
  RecorderOptions options = in(RecordingMode::ring);
  options.payload_steps = 3;
  options.ring_bytes = 0;  // the smallest
  const auto recording = recorded(run, options);
  const auto verified = recorded(run, in(RecordingMode::verify));
  EXPECT_TRUE(recording->begins_late());
  ASSERT_GE(recording->steps(), 3U);
  EXPECT_EQ(recording->first_step() + static_cast<std::int64_t>(recording->steps()), 1200);
  for (std::size_t k = 0; k < recording->steps(); ++k) {
    const RecordedStep step = recording->step(k);
    const RecordedStep same = verified->step(static_cast<std::size_t>(step.number));
    int values = 0;
    for (std::size_t r = 0; r < step.ranks.size(); ++r) {
      EXPECT_EQ(step.ranks[r].size(), same.ranks[r].size());
      for (const RecordedInbound& value : step.inbound[r]) {
        ++values;
        ASSERT_TRUE(value.saved);
        if (value.role != Role::input) continue;
        const Action& at = value.action;
        Action from = at;
        from.stage = StageId(at.stage.value + (at.phase == Phase::forward ? -1 : 1));
        if (from.stage.value < 0) continue;
        if (from.stage.value == 3) from = Action(at.stage, Phase::forward, at.mb);
        EXPECT_EQ(value.bytes(), fmt::format("{}", output_of(same, from))) << to_string(at);
      }
    }
    EXPECT_EQ(values, 2 * 3 * 6 + 2 * 6);  // and the last stage's targets
  }
}

TEST(RecordedValues, TheLastStepsAreKeptInARing) {
  const TempFolder folder;
  RecorderOptions options = in(RecordingMode::full);
  options.payload_steps = 1;
  EXPECT_THROW(Recorder(folder.file("a"), derive_plan(toy_config(2, 4)), nullptr, options),
               std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(folder.file("a")));
}

struct Blocks {
  std::shared_ptr<const Recording> recording;
  RecordedStep last;
  std::int64_t not_saved = 0;
};

/// Steps of two stages that hand on what `make` makes; 1F2 fails in the last one.
template <class Value, class Make>
Blocks recorded_blocks(std::size_t steps, RecorderOptions options, Make make) {
  const TempFolder folder;
  const Plan plan = derive_plan(toy_config(2, 4));
  auto recorder = std::make_shared<Recorder>(folder.file("a"), plan, nullptr, options);
  const StageFactory<Value> factory = [&](const StageContext&) {
    return make_stage<Value>(
        [steps](ActionContext<Value>& at, Value input) {
          if (at.step + 1 == static_cast<std::int64_t>(steps) && to_string(at.action) == "1F2") {
            input = Value();  // it is gone when the failure is known
            throw std::runtime_error("a bad sample");
          }
          return input;
        },
        [](ActionContext<Value>&, Value gradient) {
          return Gradients<Value>(std::move(gradient), Value());
        });
  };
  DeterministicContext context;
  PipelineOptions pipeline_options;
  pipeline_options.executors = any_order(context);
  pipeline_options.director = recorder;
  Pipeline<Value> pipeline(plan, factory, pipeline_options);
  for (std::size_t step = 0; step < steps; ++step) {
    const auto next = [&](MicrobatchId mb) {
      return MicrobatchData<Value>(make(step, mb), Value(), 1);
    };
    pipeline.async_step(make_batch<Value>(4, next), [](std::exception_ptr, const StepResult&) {});
    context.run();
  }
  Blocks blocks;
  blocks.not_saved = recorder->not_saved();
  recorder->close();
  blocks.recording = Recording::open(folder.file("a"));
  const Recording& recording = *blocks.recording;
  EXPECT_EQ(recording.first_step() + static_cast<std::int64_t>(recording.steps()),
            static_cast<std::int64_t>(steps));
  blocks.last = recording.step(recording.steps() - 1);
  EXPECT_EQ(blocks.last.error, "stage 1, mb 2, F failed: a bad sample");
  return blocks;
}

Block block(std::size_t bytes, std::size_t step, MicrobatchId mb) {
  std::string text(bytes, '.');
  for (std::size_t i = 0; i < bytes; i += 7) {
    text[i] = static_cast<char>('a' + (i + step + static_cast<std::size_t>(mb.value)) % 26);
  }
  return Block{std::make_shared<const std::string>(std::move(text))};
}

TEST(RecordedValues, OfAnySizeAreWhole) {
  for (const std::size_t bytes :
       {0UL, 1UL, 63UL, 64UL, 65UL, 2000UL, 3900UL, 4032UL, 4050UL, 4064UL, 5000UL, 300'000UL}) {
    const auto make = [bytes](std::size_t step, MicrobatchId mb) { return block(bytes, step, mb); };
    const auto blocks = recorded_blocks<Block>(3, in(RecordingMode::full), make);
    EXPECT_EQ(blocks.not_saved, 0);
    const auto& values = blocks.last.inbound[1];
    ASSERT_EQ(values.size(), 2U);
    EXPECT_EQ(values[0].size, bytes);
    EXPECT_TRUE(values[0].bytes() == *make(2, MicrobatchId(2)).text) << bytes;
    EXPECT_EQ(values[1].role, Role::target);
  }
}

/// Makes blocks of so many bytes.
auto of_bytes(std::size_t bytes) {
  return [bytes](std::size_t step, MicrobatchId mb) { return block(bytes, step, mb); };
}

TEST(RecordedValues, ThatDoNotFitInTheRingCostNoAction) {
  RecorderOptions options = in(RecordingMode::ring);
  options.ring_bytes = 64 << 10;
  const auto fits = recorded_blocks<Block>(500, options, of_bytes(16 << 10));
  EXPECT_TRUE(fits.last.inbound[1][0].saved);
  EXPECT_EQ(fits.not_saved, 0);
  const auto large = recorded_blocks<Block>(500, options, of_bytes(40 << 10));
  EXPECT_EQ(large.not_saved, 1);
  const auto& values = large.last.inbound[1];
  ASSERT_EQ(values.size(), 2U);
  EXPECT_FALSE(values[0].saved);
  EXPECT_EQ(values[0].size, std::uint64_t{40 << 10});
  EXPECT_EQ(values[0].bytes(), "");
  EXPECT_EQ(large.last.ranks[1].size(), fits.last.ranks[1].size());
}

TEST(RecordedValues, OfTheLastStepsLeaveEachStepItsPart) {
  for (const std::size_t bytes : {3 << 10, 6 << 10, 20 << 10, 200 << 10}) {
    RecorderOptions options = in(RecordingMode::ring);
    options.ring_bytes = 128 << 10;
    options.payload_steps = 2;
    const auto blocks = recorded_blocks<Block>(50, options, of_bytes(bytes));
    // Eight values a rank's step, in five eighths of 64 KiB.
    EXPECT_EQ(blocks.not_saved > 0, bytes > 5 << 10);
    const Recording& recording = *blocks.recording;
    ASSERT_GE(recording.steps(), 2U) << bytes;
    const RecordedStep whole = recording.step(recording.steps() - 2);
    ASSERT_EQ(whole.inbound[0].size(), 8U);
    const auto saved = std::count_if(whole.inbound[0].begin(), whole.inbound[0].end(),
                                     [](const auto& value) { return value.saved; });
    EXPECT_EQ(saved, std::min<std::int64_t>(8, (40 << 10) / static_cast<std::int64_t>(bytes)));
    EXPECT_EQ(whole.ranks[0].size(), 17U);
  }
}

TEST(RecordedValues, OfATypeWithoutASecondHandleAreGone) {
  const auto make = [](std::size_t, MicrobatchId) {
    return test::Lonely{std::make_unique<std::string>("gone")};
  };
  const auto blocks = recorded_blocks<test::Lonely>(2, in(RecordingMode::full), make);
  EXPECT_EQ(values_of(blocks.last), "");
  RecorderOptions options = in(RecordingMode::ring);
  options.payload_steps = 1;  // there they are asked for before they move on
  const auto all = recorded_blocks<test::Lonely>(2, options, make);
  EXPECT_THAT(values_of(all.last), testing::HasSubstr("1F2 input gone; "));
}

TEST(RecordedValues, NoMemoryForASecondHandleEndsTheStepAndNobodyIsForgotten) {
  using test::Fragile;
  const TempFolder folder;
  const Plan plan = derive_plan(toy_config(2, 4));
  auto recorder =
      std::make_shared<Recorder>(folder.file("a"), plan, nullptr, in(RecordingMode::full));
  DeterministicContext context;
  PipelineOptions options;
  options.executors = any_order(context);
  options.director = recorder;
  Pipeline<Fragile> pipeline(
      plan,
      [](const StageContext&) {
        return make_stage<Fragile>(
            [](ActionContext<Fragile>&, Fragile input) { return Fragile{input.number + 1}; },
            [](ActionContext<Fragile>&, Fragile gradient) {
              return Gradients<Fragile>(Fragile{gradient.number + 1}, Fragile());
            });
      },
      options);
  // A microbatch's number counts its actions: whichever of 4 times 4 it is, and then none.
  for (int refused = 0; refused <= 16; ++refused) {
    Fragile::refused = refused < 16 ? refused / 4 * 10 + refused % 4 : -1;
    bool ended = false;
    const auto next = [](MicrobatchId mb) {
      return MicrobatchData<Fragile>(Fragile{static_cast<int>(mb.value) * 10}, Fragile(), 1);
    };
    pipeline.async_step(make_batch<Fragile>(4, next),
                        [&](const std::exception_ptr& error, const StepResult&) {
                          ended = true;
                          EXPECT_EQ(error == nullptr, refused == 16) << refused;
                        });
    context.run();
    ASSERT_TRUE(ended) << refused;
  }
}

TEST(RecordedValues, AFullDiskCostsTheirBytesAlone) {
  const test::FileSizeLimit limit(1 << 20);
  const auto blocks = recorded_blocks<Block>(3, in(RecordingMode::full), of_bytes(2 << 20));
  EXPECT_EQ(blocks.not_saved, 1);
  ASSERT_EQ(blocks.last.inbound[1].size(), 2U);
  EXPECT_FALSE(blocks.last.inbound[1][0].saved);
  EXPECT_TRUE(blocks.last.inbound[1][1].saved);
  EXPECT_EQ(blocks.last.ranks[1].back().kind, Event::Kind::aborted);
}

TEST(RecordedValues, OfTheLastStepsHaveTheirRoomFromTheStart) {
  RecorderOptions options = in(RecordingMode::ring);
  options.payload_steps = 2;
  options.ring_bytes = 1 << 20;
  const TempFolder folder;
  const Plan plan = derive_plan(toy_config(2, 4));
  {
    const test::FileSizeLimit limit(2'000'000);  // two ranks and the run's own
    EXPECT_THROW(Recorder(folder.file("a"), plan, nullptr, options), RecordingError);
    EXPECT_FALSE(std::filesystem::exists(folder.file("a")));
  }
  const test::FileSizeLimit limit(3'300'000);
  const auto blocks = recorded_blocks<Block>(300, options, of_bytes(8'000));
  EXPECT_EQ(blocks.not_saved, 0);
}

/// A reader that knows no values takes their records for some of a later version.
TEST(RecordedValues, AreSkippedByAReaderThatDoesNotKnowThem) {
  const TempFolder folder;
  RecorderOptions options = in(RecordingMode::ring);
  options.payload_steps = 2;
  ToyRun run;
  run.config = toy_config(3, 6);
  run.steps = 3;
  auto recorder =
      std::make_shared<Recorder>(folder.file("a"), derive_plan(run.config), nullptr, options);
  test::run_toy(run, recorder, {0, 3});
  recorder->close();
  auto bytes = test::bytes_of(folder.file("a"));
  const auto known = Recording::parse(bytes, "known");
  int renamed = 0;
  for (std::size_t at = 0; at < bytes.size(); at += format::page_size) {
    const std::byte* page = bytes.data() + at;
    if (format::get<std::uint32_t>(page) != format::page::magic_value) continue;
    const std::size_t end = at + format::get<std::uint16_t>(page + format::page::used);
    for (std::size_t offset = at + format::page::records; offset < end;) {
      const auto record = *format::take_record(bytes, offset, end, format::first_epoch);
      const auto kind = record.row->kind;
      if (kind == format::Kind::inbound || kind == format::Kind::inbound_more) {
        bytes[offset] |= std::byte{0x3F};
        ++renamed;
      }
      offset = record.end;
    }
  }
  EXPECT_GE(renamed, 3 * 2 * 3 * 6);
  test::reseal(bytes);
  const auto unknown = Recording::parse(bytes, "unknown");
  ASSERT_EQ(unknown->steps(), known->steps());
  for (std::size_t k = 0; k < known->steps(); ++k) {
    EXPECT_TRUE(test::same_events(merge_events(unknown->step(k).ranks),
                                  merge_events(known->step(k).ranks)));
    EXPECT_EQ(values_of(unknown->step(k)), "");
    EXPECT_NE(values_of(known->step(k)), "");
  }
}

}  // namespace
}  // namespace sluice::replay
