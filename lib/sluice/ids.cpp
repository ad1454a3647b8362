#include <sluice/ids.hpp>

#include <charconv>

#include <fmt/format.h>

namespace sluice {
namespace {

/// The digits at the front of `text`, removed from it.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.front() == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::string to_string(const Action& action) {
  return fmt::format("{}{}{}", action.stage.value, letter(action.phase), action.mb.value);
}

std::optional<Action> parse_action(std::string_view text) {
  const auto stage = take_number(text);
  if (!stage || text.empty()) return std::nullopt;
  const auto phase = phase_of(text.front());
  if (!phase) return std::nullopt;
  text.remove_prefix(1);
  const auto mb = take_number(text);
  if (!mb || !text.empty()) return std::nullopt;
  return Action(StageId(*stage), *phase, MicrobatchId(*mb));
}

}  // namespace sluice
