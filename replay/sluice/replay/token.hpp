// A token: all that is needed to run the same order again, as one word.
//
// The scenario and the deviations, checked by a sum, in base 64. A schedule or a policy of the user's own is
// not in it: whoever replays such a token brings them along. Value types; no executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/replay/scenario.hpp>
#include <sluice/replay/strategy.hpp>

namespace sluice::replay {

/// Where an order was met, and so where it is repeated.
enum class World : std::uint8_t {
  runtime,  ///< the pipeline on the deterministic executor; deviations are of its picks
  model,    ///< the plan's states; deviations are of whose turn it is
};

struct Token {
  World world = World::runtime;
  Scenario scenario;
  std::vector<Deviation> deviations;
  std::optional<Walk> walk;  ///< instead of the deviations: short, however many it has made
  bool own = false;          ///< the schedule or the policy is the user's
};

/// `slc1:...`
std::string to_string(const Token& token);
/// With any bytes inside, letters and sum as they should be: for fuzzers.
std::string token_of_bytes(std::span<const std::byte> bytes);
/// Throws std::invalid_argument, which says what is wrong with the text.
Token parse_token(std::string_view text);

}  // namespace sluice::replay
