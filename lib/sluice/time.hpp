// Virtual time: what costs are given in and timelines are computed in.
//
// A user's costs are numbers in a unit of the user's own (a forward, a millisecond). Whether two
// things happen at the same moment decides what a stage runs next, so times are kept exactly: a
// whole number of millionths of that unit, never a floating-point sum.
// Plain values; any executor.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

namespace sluice {

/// A moment in virtual time, or a span of it.
struct Time {
  static constexpr std::int64_t per_unit = 1'000'000;

  std::int64_t millionths = 0;

  constexpr Time() = default;
  static constexpr Time from_millionths(std::int64_t millionths) {
    Time time;
    time.millionths = millionths;
    return time;
  }
  /// The nearest millionth to `units`. Requires |units| < 9e12.
  static constexpr Time from_units(double units) {
    const double scaled = units * static_cast<double>(per_unit);
    return from_millionths(static_cast<std::int64_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5));
  }
  /// The same for a number from outside: nothing when it is not finite or too large.
  static constexpr std::optional<Time> checked_units(double units) {
    const bool in_range = units > -9e12 && units < 9e12;  // no to a NaN
    if (!in_range) return std::nullopt;
    return from_units(units);
  }
  constexpr double units() const {
    return static_cast<double>(millionths) / static_cast<double>(per_unit);
  }

  constexpr Time& operator+=(Time other) {
    millionths += other.millionths;
    return *this;
  }
  friend constexpr Time operator+(Time a, Time b) { return a += b; }
  friend constexpr Time operator-(Time a, Time b) {
    return from_millionths(a.millionths - b.millionths);
  }
  friend constexpr Time operator*(std::int64_t times, Time span) {
    return from_millionths(times * span.millionths);
  }
  friend constexpr auto operator<=>(const Time&, const Time&) = default;
};

}  // namespace sluice
