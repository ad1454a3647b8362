#include <sluice/drawing.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::size_t most_actions = 20'000;
constexpr double least_pixels = 560;  // of headings and marks
constexpr double most_pixels = 30'000;
constexpr double digit = 7;     // of a cell's number
constexpr double row = 22;      // from stage to stage
constexpr double margin = 76;   // for the names of the stages
constexpr double heading = 26;  // above a track
constexpr double axis = 44;     // below it, with the note and the gap to the next

/// `text` between tags or in an attribute. Control characters are no part of a document.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default:
        if (static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t') result += c;
    }
  }
  return result;
}

/// What of a track is drawn.
struct Shown {
  std::vector<const TimedAction*> actions;  // by start
  std::size_t left_out = 0;
  Time span;  // at least a millionth
};

Shown shown_of(const Track& track) {
  Shown shown;
  shown.span = track.span;
  Time end;
  for (const TimedAction& timed : track.actions) {
    end = std::max(end, timed.end);
    shown.actions.push_back(&timed);
  }
  if (shown.span <= Time()) shown.span = std::max(end, Time::from_millionths(1));
  std::sort(
      shown.actions.begin(), shown.actions.end(), [](const TimedAction* a, const TimedAction* b) {
        return std::tie(a->start, a->rank, a->action) < std::tie(b->start, b->rank, b->action);
      });
  if (shown.actions.size() > most_actions) {
    shown.left_out = shown.actions.size() - most_actions;
    shown.span = std::min(shown.span, shown.actions[most_actions]->start);
    shown.span = std::max(shown.span, Time::from_millionths(1));
    shown.actions.resize(most_actions);
  }
  return shown;
}

/// The width at which nine cells of ten have room for their number.
double width_of(const Shown& shown) {
  std::vector<double> wanted;
  for (const TimedAction* timed : shown.actions) {
    const double share = (timed->end - timed->start).units() / shown.span.units();
    const auto digits = static_cast<double>(fmt::formatted_size("{}", timed->action.mb.value));
    if (share > 0) wanted.push_back((digit * digits + 6) / share);
  }
  if (wanted.empty()) return least_pixels;
  const auto at = wanted.begin() + static_cast<std::ptrdiff_t>((wanted.size() - 1) * 9 / 10);
  std::nth_element(wanted.begin(), at, wanted.end());
  return std::clamp(*at, least_pixels, most_pixels);
}

/// 1, 2 or 5 times a power of ten, so that there is a tick every hundred pixels or so.
double tick_of(const Shown& shown, double width) {
  const double wanted = shown.span.units() * 100 / width;
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= wanted) return factor * power;
  }
  return 10 * power;
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::input_gradient: return "input gradient";
    default: return "weight gradient";
  }
}

constexpr std::string_view style = R"(<style>
.sluice { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #1c2430; }
.sluice .lane { fill: #eef0f3; }
.sluice .cell rect { stroke: #fff; stroke-width: 1; }
.sluice .F rect { fill: #a9cdf5; }
.sluice .B rect, .sluice .I rect { fill: #1f6f78; }
.sluice .W rect { fill: #c58be0; }
.sluice .cell text { text-anchor: middle; font-size: 11px; }
.sluice .B text, .sluice .I text { fill: #fff; }
.sluice .cell.on rect { stroke: #d9480f; stroke-width: 2; }
.sluice .axis { stroke: #8a94a3; }
.sluice .tick { font-size: 11px; fill: #5a6472; text-anchor: middle; }
.sluice .note { font-size: 11px; fill: #5a6472; }
.sluice .heading { font-weight: 600; }
.sluice .mark { fill: #d9480f; }
.sluice .shaft { stroke: #d9480f; stroke-dasharray: 2 2; }
</style>
)";

class Drawing {
 public:
  explicit Drawing(const std::vector<Track>& tracks) {
    for (const Track& track : tracks) shown_.push_back(shown_of(track));
    for (const Shown& shown : shown_) width_ = std::max(width_, width_of(shown));
    double y = 4;
    for (std::size_t i = 0; i < tracks.size(); ++i) y = add(tracks[i], shown_[i], y);
    legend(y);
    height_ = y + 24;
  }

  std::string svg() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sluice\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\">\n{2}"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{3}</svg>\n",
        margin + width_ + 12, height_, style, body_);
  }

 private:
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
  }

  double x_of(const Shown& shown, Time t) const {
    return margin + width_ * std::min(1.0, t.units() / shown.span.units());
  }

  /// Draws a track from `y` down; returns where the next one can begin.
  double add(const Track& track, const Shown& shown, double y) {
    if (!track.heading.empty()) {
      print("<text class=\"heading\" x=\"4\" y=\"{:.0f}\">{}</text>\n", y + 15,
            escaped(track.heading));
    }
    const double top = y + heading;
    for (int s = 0; s < track.stages; ++s) {
      print(
          "<text x=\"4\" y=\"{:.0f}\">stage {}</text><rect class=\"lane\" x=\"{}\" y=\"{:.0f}\" "
          "width=\"{:.0f}\" height=\"{}\"/>\n",
          top + row * s + 14, s, margin, top + row * s, width_, row - 2);
    }
    for (const TimedAction* timed : shown.actions) cell(shown, *timed, top);
    const double bottom = top + row * track.stages;
    ticks(track, shown, bottom);
    if (track.mark) mark(*track.mark, shown, top);
    if (shown.left_out > 0) {
      print(
          "<text class=\"note\" x=\"{}\" y=\"{:.0f}\">up to t = {}: {} of {} actions start "
          "later</text>\n",
          margin, bottom + 32, shown.span.units(), shown.left_out, track.actions.size());
    }
    return bottom + axis;
  }

  void cell(const Shown& shown, const TimedAction& timed, double top) {
    const Action& action = timed.action;
    drawn_[static_cast<std::size_t>(action.phase)] = true;
    const double from = x_of(shown, timed.start);
    const double width = std::max(1.0, x_of(shown, timed.end) - from);
    const double y = top + row * action.stage.value;
    print(
        "<g class=\"cell {0}\" data-mb=\"{1}\"><title>{2}: stage {3}, {4} of microbatch {1}, "
        "{5} to {6}</title><rect x=\"{7:.2f}\" y=\"{8:.0f}\" width=\"{9:.2f}\" height=\"{10}\"/>",
        letter(action.phase), action.mb.value, to_string(action), action.stage.value,
        name_of(action.phase), timed.start.units(), timed.end.units(), from, y, width, row - 2);
    const auto digits = static_cast<double>(fmt::formatted_size("{}", action.mb.value));
    if (width >= digit * digits + 1) {
      print("<text x=\"{:.2f}\" y=\"{:.0f}\">{}</text>", from + width / 2, y + 14, action.mb.value);
    }
    body_ += "</g>\n";
  }

  void ticks(const Track& track, const Shown& shown, double y) {
    print("<path class=\"axis\" d=\"M{} {:.0f}h{:.0f}\"/>\n", margin, y, width_);
    const double every = tick_of(shown, width_);
    for (int i = 0; i * every <= shown.span.units() * (1 + 1e-9); ++i) {
      const double x = margin + width_ * i * every / shown.span.units();
      print(
          "<path class=\"axis\" d=\"M{0:.1f} {1:.0f}v4\"/><text class=\"tick\" x=\"{0:.1f}\" "
          "y=\"{2:.0f}\">{3:.10g}{4}</text>\n",
          x, y, y + 16, i * every, escaped(track.unit));
    }
  }

  /// An arrow from above; what it says stands beside the heading, where it covers no cell.
  void mark(const Mark& mark, const Shown& shown, double top) {
    const double x = x_of(shown, mark.at);
    const double y = top + row * mark.stage.value;
    // What it says stands on the side that has room.
    const bool left = x > margin + width_ / 2;
    print(
        "<path class=\"shaft\" d=\"M{0:.2f} {1:.0f}V{2:.0f}\"/>"
        "<path class=\"mark\" d=\"M{0:.2f} {3:.0f}l-5 -9h10z\"/><text class=\"mark\" x=\"{4:.2f}\" "
        "y=\"{5:.0f}\"{6}>{7}</text>\n",
        x, top - 16, y, y + 2, left ? x - 8 : x + 8, top - 11, left ? " text-anchor=\"end\"" : "",
        escaped(mark.text));
  }

  /// Of the phases that are there; a backward and an input gradient look alike.
  void legend(double y) {
    double x = margin;
    for (const Phase phase : {Phase::forward, Phase::backward, Phase::weight_gradient}) {
      const bool back = phase == Phase::backward;
      const bool input = back && drawn(Phase::input_gradient);
      if (!drawn(phase) && !input) continue;
      const std::string_view name = !input                   ? name_of(phase)
                                    : drawn(Phase::backward) ? "backward, input gradient"
                                                             : name_of(Phase::input_gradient);
      print(
          "<g class=\"cell {}\"><rect x=\"{}\" y=\"{:.0f}\" width=\"14\" height=\"14\"/></g>"
          "<text x=\"{}\" y=\"{:.0f}\">{}</text>\n",
          letter(phase), x, y, x + 20, y + 11, name);
      x += 40 + digit * static_cast<double>(name.size());
    }
  }

  bool drawn(Phase phase) const { return drawn_[static_cast<std::size_t>(phase)]; }

  std::vector<Shown> shown_;
  std::array<bool, 4> drawn_{};  // phases
  double width_ = least_pixels;
  double height_ = 0;
  std::string body_;
};

constexpr std::string_view page = R"(<style>
body {{ margin: 1.5rem; font: 15px/1.45 ui-sans-serif, system-ui, sans-serif; color: #1c2430;
       background: #fff; }}
h1 {{ font-size: 1.1rem; }}
pre {{ font: 13px/1.4 ui-monospace, monospace; overflow-x: auto; }}
.scroll {{ overflow-x: auto; border: 1px solid #d4d9e0; border-radius: 6px; padding: 8px; }}
</style>
<h1>{0}</h1>
<pre>{1}</pre>
<p>Point at a cell to see its microbatch in every stage; click to keep it marked.</p>
<div class="scroll">
{2}</div>
<script>
const cells = document.querySelectorAll(".cell[data-mb]");
const byMicrobatch = new Map();
for (const cell of cells) {{
  if (!byMicrobatch.has(cell.dataset.mb)) byMicrobatch.set(cell.dataset.mb, []);
  byMicrobatch.get(cell.dataset.mb).push(cell);
}}
let kept = null;
const show = (mb, on) => {{
  for (const cell of byMicrobatch.get(mb) ?? []) cell.classList.toggle("on", on);
}};
for (const cell of cells) {{
  const mb = cell.dataset.mb;
  cell.addEventListener("pointerenter", () => show(mb, true));
  cell.addEventListener("pointerleave", () => show(mb, mb === kept));
  cell.addEventListener("click", () => {{
    if (kept !== null) show(kept, false);
    kept = kept === mb ? null : mb;
    show(mb, true);
  }});
}}
</script>
)";

}  // namespace

std::string draw_svg(const std::vector<Track>& tracks) { return Drawing(tracks).svg(); }

std::string draw_html(std::string_view title, std::string_view summary,
                      const std::vector<Track>& tracks) {
  return fmt::format(
             "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n",
             escaped(title)) +
         fmt::format(page, escaped(title), escaped(summary), Drawing(tracks).svg()) + "</html>\n";
}

}  // namespace sluice
