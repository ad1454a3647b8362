// Everything at once: a plan, a live pipeline, a log or a recording held against the law.
//
// Each function returns the first violation in words, or an empty string: EXPECT_EQ(holds(plan), "").
// They put together what invariants.hpp has one by one. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/event.hpp>
#include <sluice/plan.hpp>
#include <sluice/replay/recording.hpp>

namespace sluice::fuzz {

/// A plan's timeline: whole, causal under its link times, one action at a time on every rank (where its
/// schedule lets none overlap), within credits and slots, and its gate respected.
std::string holds(const Plan& plan);

/// The plan of a configuration, or why there is none; then the real runtime in virtual time, where that can
/// be compared: one stage a rank, whole backwards, no overhead, links with a fixed order only.
std::string holds(const PlanConfig& config);

/// The actions of a step's events as a timeline: a unit of time from each event to the next. `events` in
/// causal order, as PipelineOptions::log has them. One that did not end lasts until the last event.
std::vector<TimedAction> timeline_of(std::span<const Event> events);

/// What a live pipeline did in a step that succeeded: the same, and with a fixed order that it is the plan's.
std::string holds(const Plan& plan, std::span<const Event> events);
/// In a step that failed: as far as it came.
std::string holds_as_far_as_it_came(const Plan& plan, std::span<const Event> events);

/// A log, in any form that `sluice check` reads, against the plan.
std::string holds(const Plan& plan, std::string_view log);

/// Every step of a recording of a run with this plan.
std::string holds(const Plan& plan, const replay::Recording& recording);

}  // namespace sluice::fuzz
