#include <sluice/picture.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace sluice {
namespace {

// Stages that are drawn: of more, the first and the last, which are where a pipe fills and drains.
constexpr int most_rows = 64;

/// What stands round the number of a phase.
struct Dress {
  std::string_view open;
  std::string_view close;
  char unnumbered;  // fills a cell that is too narrow for its number
};

Dress dress_of(Phase phase) {
  switch (phase) {
    case Phase::forward: return {"", " ", '-'};
    case Phase::weight_gradient: return {"(", ")", '~'};
    default: return {"[", "]", '='};
  }
}

std::string label_of(int stage, int stages) {
  const auto digits = fmt::formatted_size("{}", stages - 1);
  return fmt::format("stage {:<{}} |", stage, digits);
}

/// Columns that the action needs to show its number and a border to its neighbour.
int need_of(const Action& action) {
  const Dress dress = dress_of(action.phase);
  return static_cast<int>(dress.open.size() + dress.close.size() +
                          fmt::formatted_size("{}", action.mb.value));
}

Time end_of(std::span<const TimedAction> actions) {
  Time end;
  for (const TimedAction& timed : actions) end = std::max(end, timed.end);
  return end;
}

/// The longest time that every start and end is a multiple of.
Time grid_of(std::span<const TimedAction> actions) {
  std::int64_t grid = 0;
  for (const TimedAction& timed : actions) {
    grid = std::gcd(std::gcd(grid, timed.start.millionths), timed.end.millionths);
  }
  return Time::from_millionths(grid);
}

/// Columns per unit of time at which nine actions of ten can show their number; the tenth may be a
/// hiccup of the clock that should not blow up the rest.
double density_of(std::span<const TimedAction> actions) {
  std::vector<double> wanted;
  wanted.reserve(actions.size());
  for (const TimedAction& timed : actions) {
    const Time length = timed.end - timed.start;
    if (length > Time()) wanted.push_back(need_of(timed.action) / length.units());
  }
  if (wanted.empty()) return 1;
  const auto at = wanted.begin() + static_cast<std::ptrdiff_t>((wanted.size() - 1) * 9 / 10);
  std::nth_element(wanted.begin(), at, wanted.end());
  return *at;
}

/// `number` in its dress, as wide as its cell.
std::string cell_of(const Action& action, int width) {
  const Dress dress = dress_of(action.phase);
  const auto columns = static_cast<std::size_t>(width);
  const std::string number = fmt::format("{}", action.mb.value);
  // A forward may touch its neighbour when there is no room for the blank between them.
  const std::size_t least =
      dress.open.size() + number.size() + (action.phase == Phase::forward ? 0 : dress.close.size());
  if (columns < least) return std::string(columns, dress.unnumbered);
  std::string cell = fmt::format("{}{}", dress.open, number);
  if (action.phase == Phase::forward) return cell + std::string(columns - cell.size(), ' ');
  cell += std::string(columns - cell.size() - dress.close.size(), ' ');
  return cell.append(dress.close);
}

}  // namespace

Scale fit(std::span<const TimedAction> actions, int stages, int columns) {
  const int room = columns - static_cast<int>(label_of(0, stages).size());
  const Time end = end_of(actions);
  if (end == Time()) return {Time::from_units(1), room};
  const double density = density_of(actions);
  const Time grid = grid_of(actions);
  const double natural = density * grid.units();
  const double cell = std::ceil(natural - 1e-9);  // columns from line to line of the grid
  if (cell <= room && cell <= 1.5 * natural) {
    // Every border falls on a column. Whole cells of the grid, as many as there is room for.
    const auto cells =
        std::min(end.millionths / grid.millionths, static_cast<std::int64_t>(room / cell));
    return {cells * grid, static_cast<int>(static_cast<double>(cells) * cell)};
  }
  // Borders are rounded to columns; what room there is beyond the need makes up for it.
  const double shown = std::min(end.units(), room / density);
  return {Time::from_units(shown), static_cast<int>(std::min<double>(room, 2 * shown * density))};
}

Scale same_columns(const Scale& scale, const Timeline& derived, const Timeline& measured) {
  const double share = scale.span.units() / derived.makespan.units();
  return {Time::from_units(share * measured.makespan.units()), scale.columns};
}

std::string draw(std::span<const TimedAction> actions, int stages, const Scale& scale) {
  const auto width = static_cast<std::size_t>(scale.columns);
  std::vector<std::string> rows(static_cast<std::size_t>(stages), std::string(width, '.'));
  const auto column = [&scale](Time t) {
    const double at = t.units() / scale.span.units() * scale.columns;
    // An end behind the border is as good as any other: what lies there is clipped.
    return static_cast<int>(std::lround(std::min<double>(at, 2 * scale.columns)));
  };
  std::size_t cut = 0;
  std::size_t unnumbered = 0;
  for (const TimedAction& timed : actions) {
    if (timed.end > scale.span) ++cut;
    if (timed.start >= scale.span) continue;
    const int from = column(timed.start);
    const std::string cell = cell_of(timed.action, column(timed.end) - from)
                                 .substr(0, width - static_cast<std::size_t>(from));
    rows[timed.action.stage.index()].replace(static_cast<std::size_t>(from), cell.size(), cell);
    const bool numbered = cell.find_first_of("0123456789") != std::string::npos;
    if (!numbered && timed.end <= scale.span) ++unnumbered;
  }
  std::string text;
  for (int s = 0; s < stages; ++s) {
    if (stages > most_rows && s == most_rows / 2) {
      s = stages - most_rows / 2;
      fmt::format_to(std::back_inserter(text), "... {} more stages ...\n", stages - most_rows);
    }
    fmt::format_to(std::back_inserter(text), "{}{}\n", label_of(s, stages),
                   rows[static_cast<std::size_t>(s)]);
  }
  if (cut > 0) {
    fmt::format_to(std::back_inserter(text), "up to t = {} of {}: {} of {} actions end later\n",
                   scale.span.units(), end_of(actions).units(), cut, actions.size());
  }
  if (unnumbered > 0) {
    fmt::format_to(std::back_inserter(text),
                   "{} of {} actions are too short for their number: - forward, = backward, "
                   "~ weight gradient\n",
                   unnumbered, actions.size());
  }
  return text;
}

TimedAction measured_action(const Action& action, RankId rank, std::int64_t enter_ns,
                            std::int64_t exit_ns) {
  return {action, rank, Time::from_millionths(enter_ns), Time::from_millionths(exit_ns)};
}

std::string life_of(std::span<const TimedAction> actions, MicrobatchId mb) {
  // By start; what starts at one moment stays in the given order.
  std::vector<std::pair<Time, std::size_t>> life;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].action.mb == mb) life.emplace_back(actions[i].start, i);
  }
  std::sort(life.begin(), life.end());
  std::string text;
  for (const auto& [start, i] : life) {
    if (!text.empty()) text += ' ';
    text += fmt::format("{}{}", letter(actions[i].action.phase), actions[i].action.stage.value);
  }
  return text;
}

}  // namespace sluice
