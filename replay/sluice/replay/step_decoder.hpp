// Turns one rank's records of one step back into events.
//
// Used by the reader, twice: to check all of a file when it is opened, and to hand out a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/director.hpp>
#include <sluice/event.hpp>
#include <sluice/replay/planned_order.hpp>
#include <sluice/replay/record.hpp>

namespace sluice::replay {

/// A record that makes no sense where it stands. The reader adds file and offset.
struct Malformed {
  std::string expected;
  std::string found;
};

/// An action as one number, and back.
inline std::uint64_t code_of(const Action& action, int stages) {
  return (static_cast<std::uint64_t>(action.mb.value) * static_cast<std::uint64_t>(stages) +
          static_cast<std::uint64_t>(action.stage.value)) *
             4 +
         static_cast<std::uint64_t>(action.phase);
}
/// Throws Malformed for a number that is no action of `stages` stages.
Action action_of(std::uint64_t code, int stages);

/// A value from outside that an action has read.
struct RecordedOutside {
  Action action;
  std::string name;
  bool failed = false;  ///< reading threw; `bytes` is the text
  std::string bytes;
};

/// A value that an action was given, in the encoding of the program that recorded.
struct RecordedInbound {
  Action action;
  InboundValue::Role role = InboundValue::Role::input;
  std::uint64_t size = 0;  ///< of its bytes
  bool saved = false;      ///< false: there was no room for them
  /// Where they are, piece by piece: inside the recording, which outlives this.
  std::vector<std::span<const std::byte>> parts;

  /// All of them; none when they were not saved.
  std::string bytes() const;
};

class StepDecoder {
 public:
  /// `order` outlives the decoder.
  StepDecoder(RankId rank, std::int64_t step, const PlannedOrder& order, int stages)
      : rank_(rank), step_(step), stages_(stages), cursor_(order) {}

  /// Throws Malformed.
  void add(const format::Record& record);

  bool done() const { return done_; }
  std::vector<Event>& events() { return events_; }
  /// In the order in which they were read, once the step has ended.
  std::vector<RecordedOutside>& outside();
  /// In the order of the actions, once the step has ended.
  std::vector<RecordedInbound>& inbound();

 private:
  void planned(std::uint64_t count);
  void enter(const Action& action);
  void end(Event::Kind kind, std::optional<std::uint64_t> hash);
  void update(Event::Kind kind, std::uint64_t stage, std::optional<std::uint64_t> hash);
  void committed(std::span<const std::byte> fields);
  void outside_begins(std::span<const std::byte> fields);
  void outside_goes_on(std::span<const std::byte> value);
  void inbound_begins(std::span<const std::byte> fields);
  void inbound_goes_on(std::span<const std::byte> value);
  void push(Event::Kind kind, const Action& action, std::optional<std::uint64_t> hash);

  RankId rank_;
  std::int64_t step_;
  int stages_;
  PlannedCursor cursor_;
  std::optional<Action> running_;
  bool done_ = false;
  std::vector<Event> events_;
  std::vector<RecordedOutside> outside_;
  std::uint64_t outside_missing_ = 0;  // bytes of the last value
  std::vector<RecordedInbound> inbound_;
  std::uint64_t inbound_missing_ = 0;  // bytes of the last one
};

}  // namespace sluice::replay
