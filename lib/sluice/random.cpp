#include <sluice/random.hpp>

#include <Random123/philox.h>

namespace sluice {
namespace {

/// FNV-1a: short, and the same everywhere. Names only have to end up far apart; Philox mixes.
std::uint64_t hash_names(std::string_view path, std::string_view use) {
  constexpr std::uint64_t prime = 0x100000001b3;
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto feed = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * prime;
  };
  feed(path);
  hash *= prime;  // a zero byte, so that ("ab", "c") is not ("a", "bc")
  feed(use);
  return hash;
}

std::uint32_t low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
std::uint32_t high(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }

std::array<std::uint32_t, 4> philox(const std::array<std::uint32_t, 4>& counter,
                                    const std::array<std::uint32_t, 2>& key) {
  philox4x32_ctr_t in{};
  philox4x32_key_t with{};
  for (std::size_t i = 0; i < 4; ++i) in.v[i] = counter[i];
  for (std::size_t i = 0; i < 2; ++i) with.v[i] = key[i];
  const philox4x32_ctr_t out = philox4x32(in, with);
  return {out.v[0], out.v[1], out.v[2], out.v[3]};
}

}  // namespace

// One block under the seed turns (names, step) into 96 bits: the stream's key and one word of its
// counter. The sample is two words of the counter as it is, and the first word counts blocks: a
// stream is 2^34 numbers long before it repeats.
KeyedRandom::KeyedRandom(std::uint64_t seed, std::int64_t step, std::string_view path,
                         std::int64_t sample, std::string_view use) {
  const std::uint64_t names = hash_names(path, use);
  const auto at_step = static_cast<std::uint64_t>(step);
  const auto at_sample = static_cast<std::uint64_t>(sample);
  const auto stream =
      philox({low(names), high(names), low(at_step), high(at_step)}, {low(seed), high(seed)});
  key_ = {stream[0], stream[1]};
  counter_ = {0, stream[2], low(at_sample), high(at_sample)};
}

KeyedRandom::result_type KeyedRandom::operator()() {
  if (used_ == block_.size()) {
    block_ = philox(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

float KeyedRandom::uniform() { return static_cast<float>((*this)() >> 8) * 0x1p-24F; }

// Lemire's method: the high word of a product, and a redraw for the few low words that would favour
// some results.
std::uint32_t KeyedRandom::below(std::uint32_t bound) {
  const std::uint32_t unfair = (0U - bound) % bound;
  for (;;) {
    const std::uint64_t product = static_cast<std::uint64_t>((*this)()) * bound;
    if (low(product) >= unfair) return high(product);
  }
}

}  // namespace sluice
