#include "until.hpp"

#include <charconv>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "errors.hpp"

namespace sluice::tools {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw UsageError("--until", fmt::format("{}: {}; expected seq=N, step=N,seq=N, step=N, or "
                                          "step=N,mb=N,stage=N,phase=P with P one of F, B, I, W",
                                          text, why));
}

std::int64_t number_in(std::string_view text, std::string_view key, std::string_view value) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < 0) {
    refuse(text, fmt::format("{} is no number from 0 on", key));
  }
  return number;
}

}  // namespace

Until parse_until(std::string_view text) {
  Until until;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const auto equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    if (equals == std::string_view::npos) refuse(text, fmt::format("'{}' has no value", part));
    const std::string_view value = part.substr(equals + 1);
    std::optional<std::int64_t>* target = key == "step"    ? &until.step
                                          : key == "seq"   ? &until.seq
                                          : key == "stage" ? &until.stage
                                          : key == "mb"    ? &until.mb
                                                           : nullptr;
    if (key == "phase") {
      until.phase = value.size() == 1 ? phase_of(value.front()) : std::nullopt;
      if (!until.phase) refuse(text, fmt::format("'{}' is no phase", value));
    } else if (target == nullptr) {
      refuse(text, fmt::format("unknown key '{}'", key));
    } else {
      *target = number_in(text, key, value);
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  const int of_action = (until.stage ? 1 : 0) + (until.mb ? 1 : 0) + (until.phase ? 1 : 0);
  if (until.seq && of_action > 0) refuse(text, "seq names an action by itself");
  if (!until.seq && of_action > 0 && (of_action < 3 || !until.step)) {
    refuse(text, "an action needs step, mb, stage and phase");
  }
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (until.stage.value_or(0) > most || until.mb.value_or(0) > most) {
    refuse(text, "no such stage or microbatch");
  }
  return until;
}

replay::ReplayPoint point_in(const replay::Recording& recording, const Until& until) {
  try {
    if (until.seq) return replay::point_of(recording, until.step, *until.seq);
    if (until.phase) {
      return replay::point_of(recording, *until.step,
                              Action(StageId(*until.stage), *until.phase, MicrobatchId(*until.mb)));
    }
    const std::int64_t index = *until.step - recording.first_step();
    const bool there = index >= 0 && index < static_cast<std::int64_t>(recording.steps());
    const std::int64_t seq =
        there ? recording.first_seq(static_cast<std::size_t>(index)) : std::int64_t{1};
    return replay::point_of(recording, until.step, seq);
  } catch (const std::invalid_argument& error) {
    throw UsageError("--until", error.what());
  }
}

}  // namespace sluice::tools
