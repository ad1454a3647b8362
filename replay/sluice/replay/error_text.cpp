#include <sluice/replay/error_text.hpp>

#include <array>
#include <stdexcept>
#include <string>

#include <sluice/step_error.hpp>

namespace sluice::replay {

std::string_view recorded_part(std::string_view error) {
  if (error.size() <= most_recorded_error) return error;
  std::size_t end = most_recorded_error;
  while (end > 0 && (static_cast<unsigned char>(error[end]) & 0xC0) == 0x80) --end;
  return error.substr(0, end);
}

bool is_stuck(std::string_view error) { return error.starts_with("stuck:"); }

bool is_from_outside(std::string_view error) {
  constexpr std::array<std::string_view, 4> beginnings{
      "the step was cancelled", "the step has exceeded its deadline",
      "the runtime failed:", "the replay has diverged"};
  for (const auto beginning : beginnings) {
    if (error.starts_with(beginning)) return true;
  }
  return false;
}

bool names(std::string_view error, const Action& action) {
  const auto nothing = std::make_exception_ptr(std::runtime_error(""));
  const std::string beginning = StepError::from_stage(action, nothing).what();
  return error.starts_with(beginning);
}

}  // namespace sluice::replay
