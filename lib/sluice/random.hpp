// Random numbers that depend on what they are for, never on when they are drawn.
//
// Counter-based (Philox 4x32-10): the key is (seed, step, parameter path, sample, use), so a cut
// into other stages, another schedule or another thread count draws the same numbers, and a
// recording needs to hold nothing but the seed.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sluice {

/// A stream of numbers for one key. A value type; satisfies UniformRandomBitGenerator.
class KeyedRandom {
 public:
  using result_type = std::uint32_t;

  /// `path`: the parameter's name in the model ("layers.3.weight"). `sample`: position in the global
  /// batch or data set, 0 where there is none. `use`: what for ("init", "dropout").
  KeyedRandom(std::uint64_t seed, std::int64_t step, std::string_view path, std::int64_t sample,
              std::string_view use);

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return 0xFFFFFFFFU; }
  result_type operator()();

  /// Uniform in [0, 1), 24 bits; the same bits on every platform (std::uniform_* promises that not).
  float uniform();
  /// Uniform in [0, bound). Requires bound >= 1.
  std::uint32_t below(std::uint32_t bound);

 private:
  std::array<std::uint32_t, 2> key_{};
  std::array<std::uint32_t, 4> counter_{};
  std::array<std::uint32_t, 4> block_{};
  unsigned used_ = 4;
};

}  // namespace sluice
