// The timeline: when every action starts and ends in virtual time, and what follows from it.
//
// One engine (engine.hpp), three ways in: `simulate_law` lets the law decide and so also yields an
// order, `simulate_order` prices a given order, `simulate_static` prices the static order without
// writing it down. An order needs no events (order_sweep.hpp), and with edges that never block the law
// and the static order need none either (law_sweep.hpp, wave.hpp). In virtual time all ends and arrivals
// at t are applied before any rank decides at t. Pure functions; any executor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/schedule.hpp>
#include <sluice/time.hpp>

namespace sluice {

/// What an action costs, in the user's own unit. A vector with one element stands for every stage
/// (or edge); an empty one for its default.
struct Costs {
  std::vector<Time> forward{};          ///< per stage; default 1
  std::vector<Time> backward{};         ///< per stage; default 1
  std::vector<Time> input_gradient{};   ///< per stage; default half the backward
  std::vector<Time> weight_gradient{};  ///< per stage; default the other half
  std::vector<Time> link{};             ///< per edge s -> s+1, both directions; default 0
  Time overhead{};                      ///< added to every action; default 0
  /// Per microbatch, when they are uneven: how many times the cost it takes, e.g. its samples when
  /// the costs are those of one sample. Empty: 1 each. Overhead and link do not grow with it.
  std::vector<std::int64_t> sizes{};
};

/// `costs` with one entry a stage and one link an edge. Throws std::invalid_argument when a list is
/// neither empty, nor single, nor of that length.
Costs complete(const Costs& costs, int stages);

/// One action with its place in time.
struct TimedAction {
  Action action;
  RankId rank;
  Time start;
  Time end;
};

/// How one rank spends a step.
struct RankSpan {
  Time first_start;
  Time last_end;
  Time busy;

  /// Between its own first start and last end.
  Time idle() const { return last_end - first_start - busy; }
};

struct Timeline {
  std::vector<TimedAction> actions;  ///< by start, then rank; empty with Detail::metrics
  Time makespan;                     ///< first start to last end
  Time work;                         ///< summed over all actions
  std::vector<int> peak_held;        ///< per stage
  std::vector<RankSpan> ranks;
  /// Forwards that stage 0 had started when the first backward of any stage started.
  int entered_at_first_backward = 0;
};

enum class Detail : std::uint8_t {
  actions,  ///< every action with its start and end
  metrics,  ///< only what is counted; for shapes whose actions would not fit in memory
};

struct SimulationOptions {
  Detail detail = Detail::actions;
  /// How many values may wait on each edge, per direction. Absent: never blocking. With one or more
  /// an action starts only when there is a slot for its output, which it keeps until the receiving
  /// action starts. With 0 (rendezvous) a rank stays with its output until that moment.
  std::optional<int> slots;
};

/// Why a rank cannot go on.
struct Wait {
  enum class For : std::uint8_t {
    input,     ///< `action` cannot start before `until` has ended
    slot,      ///< `action` cannot start before `until` starts and so frees a slot
    handover,  ///< `action` has ended, and its output stays with the rank until `until` starts
  };

  RankId rank;
  Action action;
  For what = For::input;
  Action until;
  RankId other;  ///< who would have to run `until`
};

/// `rank 1 cannot start 1B1: no free slot to stage 0 until rank 0 starts 0B0`
std::string to_string(const Wait& wait);

/// A step that can never finish, seen before it runs. `what()` names every wait of the cycle.
class StuckError : public std::runtime_error {
 public:
  StuckError(std::vector<Wait> waits, bool cyclic);

  /// Each rank waits for the next one, and the last for the first (when `cyclic`), or for something
  /// that nobody will run any more.
  const std::vector<Wait>& waits() const { return waits_; }
  bool cyclic() const { return cyclic_; }

 private:
  std::vector<Wait> waits_;
  bool cyclic_;
};

/// What the law does, one stage a rank. Requires stages, microbatches and credits >= 1, costs >= 0.
/// Throws StuckError, which with one slot or more never happens.
Timeline simulate_law(int stages, int microbatches, std::span<const int> credits,
                      const Costs& costs, const SimulationOptions& options = {});

/// When the actions of `schedule` run. Two that overlap start together, when both can, and end
/// together, when the time of both is over. Throws StuckError when it cannot
/// finish, and std::invalid_argument when it names a stage that is not the rank's, or a microbatch
/// out of range.
Timeline simulate_order(const Schedule& schedule, int microbatches, const Costs& costs,
                        const SimulationOptions& options = {});

/// Whether `schedule` finishes with so many slots, whatever the costs. Requires a whole one
/// (schedule_check.hpp).
bool can_finish(const Schedule& schedule, int microbatches, int slots);

/// The same as simulate_order of the static_order with one stage a rank, in less memory.
Timeline simulate_static(int stages, int microbatches, int drain_depth, const Costs& costs,
                         const SimulationOptions& options = {});

/// Per rank, the actions of a timeline from first to last.
Order order_of(const Timeline& timeline);

}  // namespace sluice
