#include <sluice/replay/step_decoder.hpp>

#include <limits>
#include <utility>

#include <fmt/format.h>

namespace sluice::replay {

using format::Kind;

Action action_of(std::uint64_t code, int stages) {
  const auto phase = static_cast<Phase>(code % 4);
  const std::uint64_t stage = code / 4 % static_cast<std::uint64_t>(stages);
  const std::uint64_t mb = code / 4 / static_cast<std::uint64_t>(stages);
  if (mb > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    throw Malformed{"a microbatch number of at most 31 bits", fmt::format("{}", mb)};
  }
  return Action(StageId(static_cast<std::int64_t>(stage)), phase,
                MicrobatchId(static_cast<std::int64_t>(mb)));
}

void StepDecoder::add(const format::Record& record) {
  if (done_) throw Malformed{"a new step after `done`", fmt::format("`{}`", record.row->name)};
  const bool goes_on = (outside_missing_ == 0 || record.row->kind == Kind::outside_more) &&
                       (inbound_missing_ == 0 || record.row->kind == Kind::inbound_more);
  if (!goes_on) {
    throw Malformed{fmt::format("{} more bytes of a value", outside_missing_ + inbound_missing_),
                    fmt::format("`{}`", record.row->name)};
  }
  switch (record.row->kind) {
    case Kind::planned: planned(record.number); return;
    case Kind::enter: enter(action_of(record.number, stages_)); return;
    case Kind::exit: end(Event::Kind::exit, record.number); return;
    case Kind::failed: end(Event::Kind::failed, std::nullopt); return;
    case Kind::stopped: update(Event::Kind::stopped, 0, std::nullopt); return;
    case Kind::committed: committed(record.bytes); return;
    case Kind::aborted: update(Event::Kind::aborted, record.number, std::nullopt); return;
    case Kind::done: done_ = true; return;
    case Kind::outside: outside_begins(record.bytes); return;
    case Kind::outside_more: outside_goes_on(record.bytes); return;
    case Kind::inbound: inbound_begins(record.bytes); return;
    case Kind::inbound_more: inbound_goes_on(record.bytes); return;
    case Kind::order:
    case Kind::step:
    case Kind::step_ended:
    case Kind::run_ended:
    case Kind::gap:
    case Kind::lines:
    case Kind::anchor:
    case Kind::result: break;
  }
  throw Malformed{"an event of a step", fmt::format("`{}`", record.row->name)};
}

void StepDecoder::planned(std::uint64_t count) {
  if (count < 1 || count > format::most_planned) {
    throw Malformed{fmt::format("1 to {} events as planned", format::most_planned),
                    fmt::format("{}", count)};
  }
  for (; count > 0; --count) {
    if (running_) {
      end(Event::Kind::exit, std::nullopt);
    } else if (const Action* next = cursor_.next()) {
      enter(*next);
    } else {
      throw Malformed{"an action left in the planned order", "none"};
    }
  }
}

void StepDecoder::enter(const Action& action) {
  if (running_) {
    throw Malformed{fmt::format("the end of {}", to_string(*running_)),
                    fmt::format("the start of {}", to_string(action))};
  }
  running_ = action;
  cursor_.start(action);
  push(Event::Kind::enter, action, std::nullopt);
}

void StepDecoder::end(Event::Kind kind, std::optional<std::uint64_t> hash) {
  if (!running_) throw Malformed{"the start of an action", "the end of one"};
  push(kind, *running_, hash);
  running_.reset();
}

void StepDecoder::update(Event::Kind kind, std::uint64_t stage, std::optional<std::uint64_t> hash) {
  if (running_) {
    throw Malformed{fmt::format("the end of {}", to_string(*running_)), "the end of the step"};
  }
  if (stage >= static_cast<std::uint64_t>(stages_)) {
    throw Malformed{fmt::format("a stage below {}", stages_), fmt::format("{}", stage)};
  }
  Action action;
  action.stage = StageId(static_cast<std::int64_t>(stage));
  push(kind, action, hash);
}

void StepDecoder::committed(std::span<const std::byte> fields) {
  std::uint64_t stage = 0;
  std::optional<std::uint64_t> hash;
  const bool sound = format::take_varint(fields, stage);
  if (!sound || (!fields.empty() && fields.size() != sizeof *hash)) {
    throw Malformed{"a stage, and 8 bytes of hash or nothing",
                    fmt::format("{} bytes behind the stage", fields.size())};
  }
  if (!fields.empty()) hash = format::get<std::uint64_t>(fields.data());
  update(Event::Kind::committed, stage, hash);
}

void StepDecoder::outside_begins(std::span<const std::byte> fields) {
  if (!running_) throw Malformed{"a running action", "a value from outside"};
  std::uint64_t failed = 0;
  std::uint64_t name = 0;
  std::uint64_t value = 0;
  if (!format::take_varint(fields, failed) || failed > 1 || !format::take_varint(fields, name) ||
      name > fields.size()) {
    throw Malformed{"whether reading failed, and a name", "something else"};
  }
  RecordedOutside outside;
  outside.action = *running_;
  outside.failed = failed == 1;
  outside.name.assign(reinterpret_cast<const char*>(fields.data()), name);
  fields = fields.subspan(name);
  if (!format::take_varint(fields, value)) throw Malformed{"the size of a value", "none"};
  outside_.push_back(std::move(outside));
  outside_missing_ = value;
  outside_goes_on(fields);
}

void StepDecoder::outside_goes_on(std::span<const std::byte> value) {
  if (outside_.empty() || value.size() > outside_missing_) {
    throw Malformed{fmt::format("at most {} more bytes of a value", outside_missing_),
                    fmt::format("{}", value.size())};
  }
  outside_.back().bytes.append(reinterpret_cast<const char*>(value.data()), value.size());
  outside_missing_ -= value.size();
}

std::vector<RecordedOutside>& StepDecoder::outside() {
  // A value whose end was not recorded has not reached its action either.
  if (outside_missing_ > 0) outside_.pop_back();
  outside_missing_ = 0;
  return outside_;
}

void StepDecoder::inbound_begins(std::span<const std::byte> fields) {
  if (!running_) throw Malformed{"a running action", "a value that one was given"};
  std::uint64_t role = 0;
  std::uint64_t saved = 0;
  RecordedInbound value;
  if (!format::take_varint(fields, role) || role > 1 || !format::take_varint(fields, saved) ||
      saved > 1 || !format::take_varint(fields, value.size)) {
    throw Malformed{"a role, whether it was saved, and a size", "something else"};
  }
  value.action = *running_;
  value.role = static_cast<InboundValue::Role>(role);
  value.saved = saved == 1;
  inbound_missing_ = value.saved ? value.size : 0;
  inbound_.push_back(std::move(value));
  inbound_goes_on(fields);
}

void StepDecoder::inbound_goes_on(std::span<const std::byte> value) {
  if (inbound_.empty() || value.size() > inbound_missing_) {
    throw Malformed{fmt::format("at most {} more bytes of a value", inbound_missing_),
                    fmt::format("{}", value.size())};
  }
  if (!value.empty()) inbound_.back().parts.push_back(value);
  inbound_missing_ -= value.size();
}

std::vector<RecordedInbound>& StepDecoder::inbound() {
  if (inbound_missing_ > 0) inbound_.pop_back();  // its end was not recorded
  inbound_missing_ = 0;
  return inbound_;
}

std::string RecordedInbound::bytes() const {
  std::string all;
  for (const auto part : parts) {
    all.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return all;
}

void StepDecoder::push(Event::Kind kind, const Action& action, std::optional<std::uint64_t> hash) {
  Event event;
  event.kind = kind;
  event.rank = rank_;
  event.action = action;
  event.step = step_;
  event.local = static_cast<std::int64_t>(events_.size());
  event.hash = hash.value_or(0);
  event.hashed = hash.has_value();
  events_.push_back(event);
}

}  // namespace sluice::replay
