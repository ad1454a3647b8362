// BoundedCache: what is expensive to make, by key, for the keys used last.
//
// A layer keeps one entry for each microbatch size it meets. A ragged data set can bring a thousand
// sizes; memory stays bounded, and the counts show when the bound is too tight. Deterministic: the
// least recently used entry goes first. Not thread safe; owned by a layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace sluice::kernels {

struct CacheCounts {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::size_t capacity = 0;
};

template <class Key, class Value>
class BoundedCache {
 public:
  /// Throws std::invalid_argument when `capacity` is 0.
  explicit BoundedCache(std::size_t capacity) : capacity_(capacity) {
    if (capacity == 0) {
      throw std::invalid_argument(
          "kernel cache capacity: expected at least 1, found 0; 8 is plenty for equal "
          "microbatches");
    }
  }

  /// The entry of `key`, made by `make()` when there is none. Valid until the next call.
  template <class Make>
  Value& get(const Key& key, Make make) {
    for (std::size_t i = entries_.size(); i-- > 0;) {
      if (entries_[i].first != key) continue;
      ++hits_;
      // Kept in order of use, so that the usual key is found at once and the first is the oldest.
      for (; i + 1 < entries_.size(); ++i) std::swap(entries_[i], entries_[i + 1]);
      return entries_.back().second;
    }
    ++misses_;
    Value made = make();
    if (entries_.size() == capacity_) entries_.erase(entries_.begin());
    entries_.emplace_back(key, std::move(made));
    return entries_.back().second;
  }

  CacheCounts counts() const { return {hits_, misses_, capacity_}; }

 private:
  std::vector<std::pair<Key, Value>> entries_;
  std::size_t capacity_;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace sluice::kernels
