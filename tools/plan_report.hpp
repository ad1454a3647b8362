// A plan as a person reads it, and as a script does.
//
// Pure functions of the plan, for the subcommands that plan or run.
#pragma once

#include <string>

#include <sluice/drawing.hpp>
#include <sluice/picture.hpp>
#include <sluice/plan.hpp>

#include "output.hpp"

namespace sluice::tools {

/// Columns of a picture: what fits a terminal and a mail.
inline constexpr int picture_columns = 100;

/// Shape and schedule, one line.
std::string title_of(const Plan& plan);

/// The title, and what was derived, a line each.
std::string header_of(const Plan& plan);

/// What a person asks next, a line each: idle time, queues, and where the time goes.
std::string details_of(const Plan& plan);

/// What will disappoint, a line each behind an empty one; empty when there is nothing.
std::string findings_of(const Plan& plan);

/// Which drain depth to take, and what others cost; empty when none fits the memory there is.
std::string recommendation_of(const Plan& plan);

/// The derived timeline on `scale`, coloured where that is wanted.
std::string picture_of(const Plan& plan, const Scale& scale);
Scale scale_of(const Plan& plan);

/// The derived timeline for a drawing; `plan` must outlive it.
Track track_of(const Plan& plan);

Json json_of(const Plan& plan);

/// The order of every rank, a row a rank.
std::string csv_of(const Plan& plan);

/// The log that the plan expects, a line an event.
std::string log_of(const Plan& plan);

}  // namespace sluice::tools
