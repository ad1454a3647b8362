#include <sluice/replay/recording_error.hpp>

#include <utility>

#include <fmt/format.h>

namespace sluice::replay {
namespace {

std::string message_of(const RecordingError::Facts& facts) {
  std::string message = facts.file;
  if (facts.offset) message += fmt::format(", offset {}", *facts.offset);
  message += fmt::format(": {}: expected {}, found {}", facts.what, facts.expected, facts.found);
  if (!facts.advice.empty()) message += "; " + facts.advice;
  return message;
}

}  // namespace

RecordingError::RecordingError(Kind kind, Facts facts)
    : std::runtime_error(message_of(facts)), kind_(kind), facts_(std::move(facts)) {}

}  // namespace sluice::replay
