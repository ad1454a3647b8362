#include <sluice/replay/rank_records.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include <sluice/replay/causal_order.hpp>
#include <sluice/replay/recording_error.hpp>
#include <sluice/replay/step_decoder.hpp>

namespace sluice::replay {

using format::Kind;
using format::Record;
using format::RecordPlace;

namespace {

bool begins_order(const Record& record) {
  return record.row->kind == Kind::order && !record.bytes.empty() &&
         record.bytes.front() == std::byte{0};
}

}  // namespace

RankRecords::RankRecords(std::span<const std::byte> bytes, format::StreamPages pages, RankId rank,
                         int stages, const std::string& file)
    : bytes_(bytes), pages_(std::move(pages)), rank_(rank), stages_(stages) {
  RecordPlace at;
  std::unique_ptr<StepDecoder> step;
  const auto conclude = [&] {
    if (!step) return;
    steps_.back().lines = std::count_if(step->events().begin(), step->events().end(), is_logged);
    steps_.back().done = step->done();
    step.reset();
  };
  // What is left of a step that began before the ring does means nothing without its planned order.
  bool inside_lost_step = begins_late();
  try {
    format::for_each_record(bytes_, pages_, {}, [&](const Record& record, RecordPlace place) {
      at = place;
      inside_lost_step = inside_lost_step && !begins_order(record);
      if (inside_lost_step) return true;
      const bool event = record.row->kind != Kind::order && record.row->kind != Kind::step;
      if (!event) {
        if (step && !step->done()) throw Malformed{"`done` before this", "a step that goes on"};
        conclude();
      }
      if (record.row->kind == Kind::order) {
        add_to_order(record.bytes);
      } else if (record.row->kind == Kind::step) {
        begin_step(record, place);
        step = std::make_unique<StepDecoder>(rank_, steps_.back().number, orders_.back(), stages_);
      } else if (step) {
        step->add(record);
      } else {
        throw Malformed{"a step", fmt::format("`{}`", record.row->name)};
      }
      return true;
    });
  } catch (const Malformed& malformed) {
    throw RecordingError(RecordingError::Kind::damaged,
                         {file, at.offset, fmt::format("a record of rank {}", rank_.value),
                          malformed.expected, malformed.found, "restore the file from a copy"});
  }
  conclude();
}

void RankRecords::drop(std::size_t steps) {
  steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(steps));
}

StepDecoder RankRecords::decode(std::size_t step) const {
  static const PlannedOrder nothing_planned{{}};
  if (step >= steps_.size()) return StepDecoder(rank_, 0, nothing_planned, stages_);
  StepDecoder decoder(rank_, steps_[step].number, orders_[steps_[step].order], stages_);
  bool begun = false;
  format::for_each_record(bytes_, pages_, steps_[step].place,
                          [&](const Record& record, RecordPlace) {
                            if (std::exchange(begun, true)) {
                              if (decoder.done() || record.row->kind == Kind::step) return false;
                              decoder.add(record);
                            }
                            return true;
                          });
  return decoder;
}

void RankRecords::begin_step(const Record& record, RecordPlace place) {
  if (order_open_ || orders_.empty()) throw Malformed{"a whole planned order first", "none"};
  Step step;
  step.number = static_cast<std::int64_t>(record.number);
  step.place = place;
  step.order = orders_.size() - 1;
  const std::int64_t expected = steps_.empty() ? step.number : steps_.back().number + 1;
  if (step.number < 0 || step.number >= std::numeric_limits<std::int64_t>::max() / 2 ||
      step.number != expected) {
    throw Malformed{fmt::format("step {}", expected), fmt::format("{}", step.number)};
  }
  steps_.push_back(step);
}

void RankRecords::add_to_order(std::span<const std::byte> fields) {
  std::uint64_t position = 0;
  std::uint64_t total = 0;
  if (!format::take_varint(fields, position) || !format::take_varint(fields, total)) {
    throw Malformed{"a position and a total", "fewer fields"};
  }
  if (position == 0) partial_.clear();
  if (position != partial_.size()) {
    throw Malformed{fmt::format("position {}", partial_.size()), fmt::format("{}", position)};
  }
  while (!fields.empty()) {
    std::uint64_t code = 0;
    if (!format::take_varint(fields, code)) throw Malformed{"an action", "half of one"};
    partial_.push_back(action_of(code, stages_));
  }
  if (partial_.size() > total) {
    throw Malformed{fmt::format("{} actions", total), fmt::format("{}", partial_.size())};
  }
  order_open_ = partial_.size() < total;
  if (!order_open_) orders_.emplace_back(std::exchange(partial_, {}));
}

}  // namespace sluice::replay
