// Which fault is planted in this run, and the expressions that faults are planted in. mutants.py puts this
// file into the copy of the sources that it rewrites; nothing else includes it.
#pragma once

// A fault may well leave something unused.
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wempty-body"
#pragma GCC diagnostic ignored "-Wreturn-type"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wdangling-pointer"

#include <cstdlib>
#include <type_traits>

namespace sluice::mutants {

inline const int planted = [] {
  const char* asked = std::getenv("SLUICE_MUTANT");
  return asked == nullptr ? 0 : std::atoi(asked);
}();

constexpr bool on(int mutant) { return !std::is_constant_evaluated() && planted == mutant; }
constexpr bool forced(int mutant, bool found) {
  return on(mutant) ? true : on(mutant + 1) ? false : found;
}

#define SLUICE_MUTANTS_BINARY(name, op, first, second)                                    \
  template <class L, class R>                                                             \
  constexpr auto name(int mutant, L&& left, R&& right) {                                  \
    if constexpr (requires { left first right; }) {                                       \
      if (on(mutant)) return static_cast<decltype(left op right)>(left first right);      \
    }                                                                                     \
    if constexpr (requires { left second right; }) {                                      \
      if (on(mutant + 1)) return static_cast<decltype(left op right)>(left second right); \
    }                                                                                     \
    return left op right;                                                                 \
  }
SLUICE_MUTANTS_BINARY(lt, <, <=, >=)
SLUICE_MUTANTS_BINARY(le, <=, <, >)
SLUICE_MUTANTS_BINARY(gt, >, >=, <=)
SLUICE_MUTANTS_BINARY(ge, >=, >, <)
#undef SLUICE_MUTANTS_BINARY

#define SLUICE_MUTANTS_BINARY(name, op, first)                                       \
  template <class L, class R>                                                        \
  constexpr auto name(int mutant, L&& left, R&& right) {                             \
    if constexpr (requires { left first right; }) {                                  \
      if (on(mutant)) return static_cast<decltype(left op right)>(left first right); \
    }                                                                                \
    return left op right;                                                            \
  }
SLUICE_MUTANTS_BINARY(eq, ==, !=)
SLUICE_MUTANTS_BINARY(ne, !=, ==)
SLUICE_MUTANTS_BINARY(add, +, -)
SLUICE_MUTANTS_BINARY(sub, -, +)
SLUICE_MUTANTS_BINARY(mul, *, +)
SLUICE_MUTANTS_BINARY(div, /, *)
#undef SLUICE_MUTANTS_BINARY

template <class T>
constexpr T largest(int mutant, const T& a, const T& b) {
  return (a < b) != on(mutant) ? b : a;
}
template <class T>
constexpr T least(int mutant, const T& a, const T& b) {
  return (b < a) != on(mutant) ? b : a;
}

}  // namespace sluice::mutants
