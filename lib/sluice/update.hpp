// The update of a step, in two phases: every stage prepares, which may fail, before any commits, which
// may not. Called for each rank on its own executor, once all microbatches have retired.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include <sluice/event.hpp>
#include <sluice/step.hpp>
#include <sluice/step_error.hpp>

namespace sluice::detail {

/// First phase.
template <class Value>
void prepare_update(Step<Value>& step, Rank<Value>& rank) {
  for (auto& owned : rank.stages) {
    try {
      if (owned.contributions.count() != step.plan().microbatches) {
        throw std::logic_error(fmt::format("it counted {} gradient contributions of {}",
                                           owned.contributions.count(), step.plan().microbatches));
      }
      owned.stage->prepare_update(step.number());
    } catch (...) {
      const auto cause = std::current_exception();
      step.fail_as([&] { return StepError::from_update(owned.id, cause); }, rank.place());
      return;
    }
  }
}

/// Second phase: all stages of all ranks commit, or all abort.
template <class Value>
void conclude_update(Step<Value>& step, Rank<Value>& rank, bool commit) {
  for (auto& owned : rank.stages) commit ? owned.stage->commit() : owned.stage->abort();
  try {
    for (auto& owned : rank.stages) {
      std::optional<std::uint64_t> hash;
      const bool bits = owned.stage->determinism() == Determinism::bitwise;
      if (commit && bits && rank.wants_hashes()) hash = owned.stage->state_hash();
      rank.updated(commit ? Event::Kind::committed : Event::Kind::aborted, owned.id, hash);
    }
  } catch (...) {  // too late to undo: the step says so, and how its weights stand
    const auto cause = std::current_exception();
    step.note_as([&] {
      return StepError(
          StepError::Kind::runtime_failed,
          fmt::format("rank {}: {}, but its director failed to note it: {}", rank.id().value,
                      commit ? "the update was applied" : "nothing was applied", text_of(cause)),
          std::nullopt, cause);
    });
  }
}

}  // namespace sluice::detail
