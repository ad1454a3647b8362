// Ids: the words every other file speaks in.
//
// A stage, a rank and a microbatch are all small numbers, and every classic pipeline bug starts with
// one of them used as another. So each is its own type, and an action is the three words the field
// writes in a cell: `2F5` is stage 2, forward, microbatch 5.
//
// Value types without allocation; safe to copy everywhere, usable on any executor.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// A number that is not interchangeable with a number of another kind.
template <class Tag>
struct Id {
  std::int32_t value = 0;

  constexpr Id() = default;
  constexpr explicit Id(std::int64_t number) : value(static_cast<std::int32_t>(number)) {}

  /// Position in a vector that holds one element for each id.
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  constexpr Id next() const { return Id(value + 1); }
  constexpr Id previous() const { return Id(value - 1); }

  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

/// One of S consecutive parts of the model, 0..S-1.
using StageId = Id<struct StageTag>;
/// One sequential worker; it owns one stage, or several.
using RankId = Id<struct RankTag>;
/// One of M slices of the global batch, 0..M-1.
using MicrobatchId = Id<struct MicrobatchTag>;

/// What a stage does with a microbatch. The order of the enumerators is the order of a ready set.
enum class Phase : std::uint8_t {
  forward,          ///< F
  backward,         ///< B: input and weight gradient in one
  input_gradient,   ///< I: the half of B that the previous stage waits for
  weight_gradient,  ///< W: the half of B that nobody waits for
};

/// `F`, `B`, `I` or `W`.
constexpr char letter(Phase phase) {
  constexpr std::array<char, 4> letters{'F', 'B', 'I', 'W'};
  return letters[static_cast<std::size_t>(phase)];
}

/// The phase a letter stands for; nothing for any other letter.
constexpr std::optional<Phase> phase_of(char letter) {
  switch (letter) {
    case 'F': return Phase::forward;
    case 'B': return Phase::backward;
    case 'I': return Phase::input_gradient;
    case 'W': return Phase::weight_gradient;
    default: return std::nullopt;
  }
}

/// True for the phase after which a stage no longer holds the microbatch.
constexpr bool releases(Phase phase) {
  return phase == Phase::backward || phase == Phase::weight_gradient;
}

/// One unit of work: what a rank runs without interruption by another action.
struct Action {
  StageId stage;
  Phase phase = Phase::forward;
  MicrobatchId mb;

  constexpr Action() = default;
  constexpr Action(StageId of_stage, Phase of_phase, MicrobatchId of_mb)
      : stage(of_stage), phase(of_phase), mb(of_mb) {}

  friend constexpr auto operator<=>(const Action&, const Action&) = default;
};

/// `2F5`.
std::string to_string(const Action& action);

/// Reads `2F5`; nothing when `text` is anything else (signs, blanks, trailing letters, numbers
/// beyond 32 bits included).
std::optional<Action> parse_action(std::string_view text);

}  // namespace sluice

template <class Tag>
struct std::hash<sluice::Id<Tag>> {
  std::size_t operator()(const sluice::Id<Tag>& id) const noexcept {
    return std::hash<std::int32_t>{}(id.value);
  }
};
