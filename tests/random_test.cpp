#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include <Random123/philox.h>
#include <gtest/gtest.h>

#include <sluice/random.hpp>

namespace sluice {
namespace {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  philox4x32_ctr_t in{};
  philox4x32_key_t with{};
  std::copy(counter.begin(), counter.end(), in.v);
  std::copy(key.begin(), key.end(), with.v);
  const philox4x32_ctr_t out = philox4x32(in, with);
  return {out.v[0], out.v[1], out.v[2], out.v[3]};
}

// The known answers that Random123 publishes for philox4x32 with 10 rounds.
TEST(Random, PhiloxKnownAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The derivation of the stream, a second time: whoever changes it changes every recorded run.
TEST(Random, StreamIsPhiloxUnderAKeyFromSeedNamesAndStep) {
  std::uint64_t names = 0xcbf29ce484222325;
  for (const char c : {'w', '\0', 'u'}) {
    names = (names ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  const std::uint64_t seed = 0x0123456789abcdef;
  const auto word = [](std::uint64_t value, int i) {
    return static_cast<std::uint32_t>(value >> (32 * i));
  };
  const auto stream =
      philox({word(names, 0), word(names, 1), 5, 0}, {word(seed, 0), word(seed, 1)});

  KeyedRandom random(seed, 5, "w", 7, "u");
  for (std::uint32_t block = 0; block < 3; ++block) {
    const auto expected = philox({block, stream[2], 7, 0}, {stream[0], stream[1]});
    for (const std::uint32_t number : expected) EXPECT_EQ(random(), number);
  }
}

TEST(Random, EveryPartOfTheKeyCounts) {
  const std::vector<KeyedRandom> streams = {
      KeyedRandom(1, 2, "layers.0.weight", 3, "init"),
      KeyedRandom(2, 2, "layers.0.weight", 3, "init"),
      KeyedRandom(1ULL << 32, 2, "layers.0.weight", 3, "init"),
      KeyedRandom(1, 3, "layers.0.weight", 3, "init"),
      KeyedRandom(1, 1LL << 40, "layers.0.weight", 3, "init"),
      KeyedRandom(1, 2, "layers.1.weight", 3, "init"),
      KeyedRandom(1, 2, "layers.0.weight", 4, "init"),
      KeyedRandom(1, 2, "layers.0.weight", 1LL << 40, "init"),
      KeyedRandom(1, 2, "layers.0.weight", 3, "dropout"),
      KeyedRandom(1, 2, "layers.0.weighti", 3, "nit"),
  };
  std::set<std::uint32_t> firsts;
  for (KeyedRandom stream : streams) firsts.insert(stream());
  EXPECT_EQ(firsts.size(), streams.size());
}

TEST(Random, EqualKeysDrawEqualNumbers) {
  KeyedRandom first(9, 0, "a", 0, "b");
  KeyedRandom second(9, 0, "a", 0, "b");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(first(), second());
}

TEST(Random, UniformStaysBelowOneAndCoversTheRange) {
  KeyedRandom random(1, 0, "", 0, "");
  double sum = 0;
  float least = 1;
  float most = 0;
  constexpr int draws = 100'000;
  for (int i = 0; i < draws; ++i) {
    const float number = random.uniform();
    sum += number;
    least = std::min(least, number);
    most = std::max(most, number);
  }
  EXPECT_GE(least, 0.0F);
  EXPECT_LT(least, 0.001F);
  EXPECT_LT(most, 1.0F);
  EXPECT_GT(most, 0.999F);
  EXPECT_NEAR(sum / draws, 0.5, 0.005);
}

TEST(Random, BelowIsFairAndInRange) {
  KeyedRandom random(1, 0, "", 0, "");
  std::array<int, 7> seen{};
  constexpr int draws = 70'000;
  for (int i = 0; i < draws; ++i) ++seen.at(random.below(7));
  for (const int count : seen) EXPECT_NEAR(count, 10'000, 500);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(random.below(1), 0U);
  // Just above half the range nearly every second draw is unfair and has to be redrawn.
  for (int i = 0; i < 1000; ++i) EXPECT_LT(random.below(0x80000001U), 0x80000001U);
}

}  // namespace
}  // namespace sluice
