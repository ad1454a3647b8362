// What every timeline of a pipeline has to satisfy, whoever made its schedule.
//
// Each function looks at a timeline, derived or measured, and returns the first violation in words,
// or an empty string: RC_ASSERT(causal(...) == ""). They share no code with the engine or the law,
// so they can judge both. Pure functions.
#pragma once

#include <span>
#include <string>

#include <sluice/timeline.hpp>

namespace sluice::fuzz {

/// Every (stage, microbatch) has its forward and its backward (in one piece, or both halves) exactly
/// once, and nothing else is there.
std::string complete(std::span<const TimedAction> actions, int stages, int microbatches);

/// Forwards climb the stages and backwards fall, each after `link` time on every edge between two
/// ranks; a backward follows its own forward, a weight gradient its input gradient.
std::string causal(std::span<const TimedAction> actions, int stages, int microbatches,
                   std::span<const Time> link);

/// A rank does one thing at a time.
std::string one_at_a_time(std::span<const TimedAction> actions, int ranks);

/// Both phases go in ascending microbatch order on every stage.
std::string ascending(std::span<const TimedAction> actions, int stages);

/// No stage ever holds more than its credit: from the start of a forward to the end of its release.
std::string within_credits(std::span<const TimedAction> actions, std::span<const int> credits);

/// Between two ranks at most `slots` values wait in each direction: from the start of the action that
/// makes one to the start of the one that takes it. With none, a rank starts nothing while something
/// that it has made has not been taken.
std::string within_slots(std::span<const TimedAction> actions, int slots);

/// The last stage holds `gate` microbatches when its first backward starts.
std::string gate_respected(std::span<const TimedAction> actions, int stages, int gate);

}  // namespace sluice::fuzz
