// InFlight: what has happened so far to each microbatch on each stage, for those not finished there.
//
// The judge of a log asks it for every record. An open-addressed table: no allocation while the
// number in flight stays the same, and finished ones are forgotten, so memory follows what is in
// flight and not how many there are. A value type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sluice/ids.hpp>

namespace sluice::detail {

class InFlight {
 public:
  using Key = std::uint64_t;

  static constexpr Key key_of(StageId stage, MicrobatchId mb) {
    return static_cast<Key>(static_cast<std::uint32_t>(stage.value)) << 32U |
           static_cast<std::uint32_t>(mb.value);
  }
  static constexpr StageId stage_of(Key key) {
    return StageId(static_cast<std::int64_t>(key >> 32U));
  }
  static constexpr MicrobatchId mb_of(Key key) {
    return MicrobatchId(static_cast<std::int64_t>(key & 0xFFFFFFFFU));
  }

  InFlight() : cells_(16) {}

  /// 0 for what is not there.
  std::uint32_t get(Key key) const {
    const Cell& cell = cells_[find(key)];
    return cell.flags;
  }

  /// Flags to add to what is there; they must not be 0.
  std::uint32_t add(Key key, std::uint32_t flags) {
    if (2 * (count_ + 1) > cells_.size()) grow();
    Cell& cell = cells_[find(key)];
    if (cell.flags == 0) ++count_;
    cell.key = key;
    return cell.flags |= flags;
  }

  void erase(Key key) {
    std::size_t hole = find(key);
    if (cells_[hole].flags == 0) return;
    --count_;
    // Close the hole: what was pushed behind it by a collision moves up.
    for (std::size_t i = next(hole); cells_[i].flags != 0; i = next(i)) {
      const std::size_t home = home_of(cells_[i].key);
      const bool reaches = hole <= i ? home <= hole || home > i : home <= hole && home > i;
      if (!reaches) continue;
      cells_[hole] = cells_[i];
      hole = i;
    }
    cells_[hole] = Cell();
  }

  std::size_t size() const { return count_; }

  /// In no order that means anything.
  template <class Visit>
  void each(Visit visit) const {
    for (const Cell& cell : cells_) {
      if (cell.flags != 0) visit(cell.key, cell.flags);
    }
  }

 private:
  struct Cell {
    Key key = 0;
    std::uint32_t flags = 0;
  };

  std::size_t home_of(Key key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> 20U) & (cells_.size() - 1);
  }
  std::size_t next(std::size_t i) const { return (i + 1) & (cells_.size() - 1); }
  std::size_t find(Key key) const {
    std::size_t i = home_of(key);
    while (cells_[i].flags != 0 && cells_[i].key != key) i = next(i);
    return i;
  }
  void grow() {
    std::vector<Cell> old(2 * cells_.size());
    old.swap(cells_);
    for (const Cell& cell : old) {
      if (cell.flags != 0) cells_[find(cell.key)] = cell;
    }
  }

  std::vector<Cell> cells_;  // a power of two; never more than half full
  std::size_t count_ = 0;
};

}  // namespace sluice::detail
