// A scenario: one step of a pipeline, what goes wrong in it on purpose, and how a token spells it.
//
// A token is all that is needed to run the same order again: the shape, the faults and the deviations,
// checked by a sum, in base 64. A schedule or a policy of the user's own is not in it: whoever replays such
// a token brings them along. Value types; no executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/plan.hpp>
#include <sluice/replay/strategy.hpp>

namespace sluice::replay {

struct Fault {
  enum class Kind : std::uint8_t {
    fails,       ///< `throw`: the stage function of `action` throws
    slow,        ///< it takes longer than everything else
    nan,         ///< its output holds a NaN
    allocation,  ///< `alloc`: memory runs out as the rank is about to run it
    worker,  ///< the worker of `action.stage`'s rank stops, at any moment, and comes back at the end
    cancel,    ///< the step is cancelled, at any moment
    deadline,  ///< its deadline passes, at any moment
    delay,  ///< the input of `action` is long on its way from the rank before, and comes at any moment
    duplicate,  ///< it comes twice, the second time at any moment
    drop,       ///< it never comes
  };

  Kind kind = Kind::fails;
  Action action;  ///< of a worker the stage alone; of cancel and deadline nothing

  friend bool operator==(const Fault&, const Fault&) = default;
};

std::string_view to_string(Fault::Kind kind);
std::optional<Fault::Kind> parse_fault(std::string_view name);
/// `throw at 2F1`, `cancel`.
std::string to_string(const Fault& fault);

/// Whether a fault of this kind has anything to strike in `plan`: where one rank does everything, nothing
/// is handed over.
bool can_strike(Fault::Kind kind, const Plan& plan);
/// Whether it can strike at its action, which then is one of the plan's.
bool can_strike(const Fault& fault, const Plan& plan);

struct Scenario {
  PlanConfig config;
  bool suspends = false;  ///< every stage function lets others go first, once
  std::vector<Fault> faults;
};

/// The shape as options of the command: `-S 2 -M 3 -W 1 --order adaptive`.
std::string options_of(const PlanConfig& config);
/// The same, then the faults.
std::string to_string(const Scenario& scenario);
/// The same with everything that was left to its default or follows: `S=4 on 2 ranks (V=2), M=8, ...`.
std::string expansion_of(const Scenario& scenario);

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

/// Drawn from (seed, run): a schedule, up to 5 ranks with up to 3 stages each, M up to 12, W or credits, slots
/// from the fewest safe ones, a cost for each stage and phase, a time for each link, the overhead, fixed or
/// adaptive order, whether stages suspend, and in three of four cases one of the faults of `kinds`. There is
/// a plan of it.
Scenario draw_scenario(std::uint64_t seed, std::int64_t run, std::span<const Fault::Kind> kinds);

/// A fault of this kind, which can strike, at an action that the plan has, drawn from (seed, run).
Fault draw_fault(Fault::Kind kind, const Plan& plan, std::uint64_t seed, std::int64_t run);

}  // namespace sluice::replay
