// Drawings: timelines as an SVG picture, or as a page that a browser shows without anything else.
//
// As in the text picture, rows are stages, to the right is time, and a cell is only the microbatch
// number; its colour is the phase. A drawing is made of tracks, one under the other: a plan, a plan
// over what was measured, what was measured with an arrow at its first wrong cell. Called by the
// commands that plan, show and check; pure functions, any executor.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/ids.hpp>
#include <sluice/time.hpp>
#include <sluice/timeline.hpp>

namespace sluice {

/// Points at a moment on a stage.
struct Mark {
  StageId stage;
  Time at;
  std::string text;
};

/// One timeline of a drawing.
struct Track {
  std::string heading;                   ///< `planned`; empty: none
  std::span<const TimedAction> actions;  ///< in any order; must outlive the drawing
  int stages = 1;                        ///< every action's stage is below
  /// What the width stands for; 0: up to the last end. Tracks with the same span can be compared by
  /// eye, tracks with their own end each fill the width.
  Time span;
  std::string_view unit;  ///< behind the numbers of the time axis: ` ms`
  std::optional<Mark> mark;
};

/// An SVG document. It takes the first 20,000 actions of a track, and says how many it leaves out.
std::string draw_svg(const std::vector<Track>& tracks);

/// An HTML document: `title`, `summary` as it stands, and the tracks; pointing at a cell shows what
/// it is, and all of its microbatch.
std::string draw_html(std::string_view title, std::string_view summary,
                      const std::vector<Track>& tracks);

}  // namespace sluice
