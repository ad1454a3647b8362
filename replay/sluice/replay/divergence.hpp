// Where and how a run differs from its recording, in one set of words for replay and for diff.
//
// A difference is located by causal order: of all ranks' first differences the one that nothing else
// can have caused. Pure functions and values; any executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/event.hpp>
#include <sluice/ids.hpp>
#include <sluice/replay/recording.hpp>

namespace sluice::replay {

enum class DivergenceClass : std::uint8_t {
  action,   ///< another action than the recorded one, or the recorded one is not possible
  count,    ///< fewer or more actions or steps than recorded
  tensor,   ///< an action's output differs
  state,    ///< a stage's weights or optimizer state differ at the end of the step
  outside,  ///< an action asks for another value from outside than recorded
  result,   ///< a step's loss or another figure of it differs, although its tensors do not
  failure,  ///< fails where the recording does not, does not where it does, or fails otherwise
};

/// `action`, `count`, `tensor`, `state`, `outside`, `result`, `failure`.
std::string_view to_string(DivergenceClass kind);

struct Divergence {
  DivergenceClass kind = DivergenceClass::action;
  std::int64_t seq =
      0;  ///< of the line in the text log; of the next one for what is no line itself
  std::int64_t step = 0;
  RankId rank;
  std::int64_t local = 0;  ///< number of the event on its rank in the step
  std::optional<StageId> stage;
  std::optional<MicrobatchId> mb;
  std::optional<Phase> phase;
  std::string recorded;
  std::string found;
  std::string last_agreeing;  ///< the event before it; empty at the start of the step
  std::string message;        ///< all of the above for a human, on several lines

  // How things stood there, for its explanation. What is empty is not known.
  std::vector<Action> ready_recorded;  ///< on the rank, by cause and effect (step_state.hpp)
  std::vector<Action> ready_found;     ///< at the rank's last choice; it depends on timing
  std::vector<int> held;               ///< per stage, as recorded
  std::vector<int> credits;            ///< per stage, of the plan
  std::vector<int> forwards_waiting;   ///< per stage: values waiting for its forward, as recorded
  std::vector<int> backwards_waiting;  ///< per stage: gradients waiting for its backward
  std::string suspicious;  ///< the first earlier thing that is not as recorded, and no difference
};

/// How things stood, a line each: ready actions with + and -, credits, queues, what was suspicious.
std::string circumstances_of(const Divergence& divergence);

/// `enter 2F5`, `exit 2F5 with output 0123456789abcdef`, `committed stage 2`, ...
std::string to_string(const Event& event);

/// How two events at the same place of a rank's sequence differ; null: the sequence has ended.
/// Hashes count where both events have one. Times do not count.
std::optional<DivergenceClass> compare(const Event* recorded, const Event* found);

/// Whether they differ only in how the step ended, which its error explains better.
bool is_outcome(const Event* recorded, const Event* found);

/// One rank's first difference in a step.
struct Mismatch {
  DivergenceClass kind = DivergenceClass::action;
  RankId rank;
  std::size_t local = 0;  ///< place in the rank's recorded sequence; its size: behind the end
  std::optional<Action> action;  ///< what it concerns
  std::string recorded;
  std::string found;
};

Mismatch mismatch_of(DivergenceClass kind, RankId rank, std::size_t local, const Event* recorded,
                     const Event* found);

/// A step that ends otherwise although all its events agree; the caller says how.
Mismatch at_the_end(const RecordedStep& step);

/// The causally first of the mismatches that there are, or null.
const Mismatch* first_of(const RecordedStep& step,
                         std::span<const std::optional<Mismatch>> mismatches);

/// Per rank, how many of its events stand before the mismatch in the log.
std::vector<std::size_t> events_before(const RecordedStep& step, const Mismatch& mismatch);

/// Places a mismatch in the recorded step.
Divergence locate(const RecordedStep& step, const Mismatch& mismatch);

}  // namespace sluice::replay
