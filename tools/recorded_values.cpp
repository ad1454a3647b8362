#include "recorded_values.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/kernels/npy.hpp>

#include "errors.hpp"

namespace sluice::tools {
namespace {

using replay::RecordedInbound;

constexpr std::size_t most_lines = 16;

struct Line {
  std::int64_t seq = 0;  ///< of its action's start
  const RecordedInbound* value = nullptr;
};

std::vector<Line> lines_of(const replay::RecordedStep& step, const Selection& selection) {
  std::map<Action, std::int64_t> starts;
  for (const NumberedEvent& numbered : events_of(step, selection)) {
    if (numbered.event.kind == Event::Kind::enter) starts[numbered.event.action] = numbered.seq;
  }
  std::vector<Line> lines;
  for (const auto& of_rank : step.inbound) {
    for (const RecordedInbound& value : of_rank) {
      const auto start = starts.find(value.action);
      if (start != starts.end()) lines.push_back({start->second, &value});
    }
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.seq < b.seq; });
  return lines;
}

std::string_view name_of(InboundValue::Role role) {
  return role == InboundValue::Role::input ? "input" : "target";
}

std::optional<kernels::NpyShape> shape_of(const RecordedInbound& value) {
  if (value.parts.empty()) return std::nullopt;
  const auto first = value.parts.front();  // the header is 128 bytes, a part at least half of that
  std::string start(reinterpret_cast<const char*>(first.data()), first.size());
  if (value.parts.size() > 1) {
    const auto second = value.parts[1];
    start.append(reinterpret_cast<const char*>(second.data()), second.size());
  }
  return kernels::npy_shape(start);
}

}  // namespace

std::string values_text(const replay::RecordedStep& step, const Selection& selection) {
  const auto lines = lines_of(step, selection);
  if (lines.empty()) return "";
  std::string text =
      fmt::format("\nwhat actions of step {} were given (--input ACTION -o FILE writes one out):\n",
                  step.number);
  for (std::size_t i = 0; i < std::min(lines.size(), most_lines); ++i) {
    const RecordedInbound& value = *lines[i].value;
    const auto shape = shape_of(value);
    text += fmt::format("seq {:<8}{:<8}{:<8}{:>10} bytes  {}\n", lines[i].seq,
                        to_string(value.action), name_of(value.role), value.size,
                        !value.saved ? "not saved: there was no room for them"
                        : shape      ? fmt::format("{} {}", shape->type, shape->shape)
                                     : "in an encoding of the program that recorded");
  }
  if (lines.size() > most_lines) {
    text += fmt::format("and {} more; --mb, --stage or --seq chooses among them\n",
                        lines.size() - most_lines);
  }
  return text;
}

Json values_json(const replay::RecordedStep& step, const Selection& selection) {
  Json values = Json::array();
  for (const Line& line : lines_of(step, selection)) {
    Json value;
    value["seq"] = line.seq;
    value["action"] = to_string(line.value->action);
    value["role"] = name_of(line.value->role);
    value["bytes"] = line.value->size;
    value["saved"] = line.value->saved;
    if (const auto shape = shape_of(*line.value)) {
      value["type"] = shape->type;
      value["shape"] = shape->shape;
    }
    values.push_back(std::move(value));
  }
  return values;
}

std::string value_of(const replay::RecordedStep& step, const Action& action,
                     InboundValue::Role role, const std::string& option) {
  std::vector<std::string> there;
  for (const auto& of_rank : step.inbound) {
    for (const RecordedInbound& value : of_rank) {
      if (value.role != role) continue;
      there.push_back(to_string(value.action));
      if (value.action != action) continue;
      if (value.saved) return value.bytes();
      throw UsageError(option,
                       fmt::format("{}: of its {} bytes none is recorded, there was no room "
                                   "for them; raise record.ring_bytes for the next run",
                                   to_string(action), value.size));
    }
  }
  if (there.empty()) {
    throw UsageError(option, fmt::format("{}: step {} holds no {}; a recording has those of an "
                                         "action that failed (of types whose WireTraits have "
                                         "encode and keep), and with record.payload those of "
                                         "the last steps",
                                         to_string(action), step.number, name_of(role)));
  }
  throw UsageError(
      option, fmt::format("{}: expected one of {}, the {}s that step {} holds", to_string(action),
                          fmt::join(there, ", "), name_of(role), step.number));
}

}  // namespace sluice::tools
