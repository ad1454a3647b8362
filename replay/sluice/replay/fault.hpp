// A fault: what goes wrong in a step on purpose, and where.
//
// Value type; the explorer plants them, scenarios and tokens name them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sluice/ids.hpp>
#include <sluice/plan.hpp>

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

/// How many kinds there are.
inline constexpr int fault_kinds = static_cast<int>(Fault::Kind::drop) + 1;

std::string_view to_string(Fault::Kind kind);
std::optional<Fault::Kind> parse_fault(std::string_view name);
/// `throw at 2F1`, `cancel`.
std::string to_string(const Fault& fault);

/// Whether a fault of this kind has anything to strike in `plan`: where one rank does everything, nothing
/// is handed over.
bool can_strike(Fault::Kind kind, const Plan& plan);
/// Whether it can strike at its action, which then is one of the plan's.
bool can_strike(const Fault& fault, const Plan& plan);

/// A fault of this kind, which can strike, at an action that the plan has, drawn from (seed, run).
Fault draw_fault(Fault::Kind kind, const Plan& plan, std::uint64_t seed, std::int64_t run);

}  // namespace sluice::replay
