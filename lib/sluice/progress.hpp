// Progress: what has happened so far to each microbatch on each stage, for those not finished there.
//
// The judge of a log asks it for every record, so a stage is a ring of flags that begins at its first
// unfinished microbatch: memory follows what is in flight and not how many there are. A number far
// ahead of the others, which a log that is wrong can have, waits in a table aside. A value type.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/in_flight.hpp>

namespace sluice::detail {

/// The kinds of action that a microbatch passes a stage in; both backwards with a gradient are one.
enum Kind : std::uint8_t { forward, gradient, weight };

constexpr Kind kind_of(Phase phase) {
  return phase == Phase::forward ? forward : phase == Phase::weight_gradient ? weight : gradient;
}

// What has happened: enter and exit of each kind of action, in order.
constexpr std::uint32_t forward_in = 1, forward_out = 2;
constexpr std::uint32_t gradient_in = 4, gradient_out = 8;
constexpr std::uint32_t weight_in = 16, weight_out = 32;
constexpr std::uint32_t everything = 63;
constexpr std::uint32_t split = 64;       // the backward comes in two halves
constexpr std::uint32_t held = 128;       // counted as held
constexpr std::uint32_t awaited = 256;    // times an event: a record waits for it
constexpr std::uint32_t assumed = 65536;  // times an event: not seen, but it must have happened

constexpr std::uint32_t in_of(unsigned kind) { return 1U << (2 * kind); }
constexpr std::uint32_t out_of(unsigned kind) { return 2U << (2 * kind); }
constexpr unsigned kind_of_event(std::uint32_t event) {
  return static_cast<unsigned>(std::bit_width(event) - 1) / 2;
}
constexpr bool enters(std::uint32_t event) { return event == in_of(kind_of_event(event)); }

/// All that a microbatch with these flags goes through.
constexpr std::uint32_t whole_of(std::uint32_t flags) {
  return (flags & split) != 0 ? everything : everything ^ weight_in ^ weight_out;
}
constexpr bool finished(std::uint32_t flags) {
  const std::uint32_t needed =
      forward_out | gradient_out | ((flags & split) != 0 ? weight_out : 0U);
  return (flags & needed) == needed;
}

/// `2F5 enter`: the action and event behind a bit.
std::string name_of(StageId stage, MicrobatchId mb, std::uint32_t event, bool halves);

class Progress {
 public:
  using Key = InFlight::Key;

  struct Stage {
    std::array<std::int32_t, 3> entered{};  // per kind: how many
    std::array<std::int32_t, 3> exited{};
    std::int32_t held = 0;
    std::int32_t done_below = 0;  // all microbatches before it are finished here

   private:
    friend class Progress;
    std::unique_ptr<std::uint32_t[]> ring;  // of flags, by number
    std::uint32_t size = 0;                 // of the ring: a power of two, or 0
    std::uint32_t used = 0;                 // flags in it that are not 0
  };

  std::size_t stages() const { return stages_.size(); }
  void resize(std::size_t stages) { stages_.resize(stages); }
  const Stage& stage(StageId id) const { return stages_[id.index()]; }

  /// Of a stage beyond, too.
  std::uint32_t flags(StageId id, MicrobatchId mb) const {
    if (id.index() >= stages_.size()) return 0;
    const Stage& stage = stages_[id.index()];
    if (mb.value < stage.done_below) return everything;
    const std::uint32_t flags = covers(stage, mb) ? stage.ring[slot(stage, mb)] : 0;
    return far_.size() == 0 ? flags : flags | far_.get(InFlight::key_of(id, mb));
  }

  /// Notes an event, and `extra` flags with it. Returns what there is by now; what is finished by it
  /// is forgotten.
  std::uint32_t happen(StageId id, MicrobatchId mb, std::uint32_t event, std::uint32_t extra) {
    Stage& stage = stages_[id.index()];
    const unsigned kind = kind_of_event(event);
    ++(enters(event) ? stage.entered : stage.exited)[kind];
    if (event == forward_in) {
      ++stage.held;
      extra |= held;
    }
    const std::uint32_t flags = add(stage, id, mb, event | extra);
    if (finished(flags)) {
      if ((flags & held) != 0) --stage.held;
      if (mb.value == stage.done_below) release(stage, id);
    }
    return flags;
  }
  void await(StageId id, MicrobatchId mb, std::uint32_t event) {
    add(stages_[id.index()], id, mb, awaited * event);
  }

  /// Nothing is under way.
  bool idle() const { return used_ == 0; }

  struct UnderWay {
    StageId stage;
    MicrobatchId mb;
    std::uint32_t flags = 0;
  };
  /// All that something has happened to and that is not forgotten, by stage, then by microbatch.
  std::vector<UnderWay> under_way() const;

 private:
  static std::size_t slot(const Stage& stage, MicrobatchId mb) {
    return static_cast<std::uint32_t>(mb.value) & (stage.size - 1);
  }
  static bool covers(const Stage& stage, MicrobatchId mb) {
    return static_cast<std::uint32_t>(mb.value - stage.done_below) < stage.size;
  }
  std::uint32_t add(Stage& stage, StageId id, MicrobatchId mb, std::uint32_t flags) {
    if (!covers(stage, mb) && !widen(stage, mb)) return add_far(id, mb, flags);
    std::uint32_t& there = stage.ring[slot(stage, mb)];
    if (there == 0) {
      ++stage.used;
      ++used_;
    }
    there |= flags;
    return far_.size() == 0 ? there : there | far_.get(InFlight::key_of(id, mb));
  }
  bool widen(Stage& stage, MicrobatchId mb);
  std::uint32_t add_far(StageId id, MicrobatchId mb, std::uint32_t flags);
  void release(Stage& stage, StageId id);

  std::vector<Stage> stages_;
  InFlight far_;          // what no ring covers
  std::size_t used_ = 0;  // flags that are not 0, in the rings and aside
};

}  // namespace sluice::detail
