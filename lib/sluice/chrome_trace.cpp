#include <sluice/chrome_trace.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace sluice {
namespace {

/// As the inside of a JSON string.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < ' ') {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result;
}

/// Microseconds of the viewer; a millionth of our unit is one of its nanoseconds.
std::string micros(Time time) {
  return fmt::format("{}.{:03}", time.millionths / 1000, time.millionths % 1000);
}

class Trace {
 public:
  void add(const Track& track, std::size_t process) {
    line("{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"name\":\"{}\"}}}}",
         process, escaped(track.heading.empty() ? "timeline" : track.heading));
    std::vector<bool> named;
    for (const TimedAction& timed : track.actions) {
      if (timed.rank.index() >= named.size()) named.resize(timed.rank.index() + 1);
      if (!named[timed.rank.index()]) {
        named[timed.rank.index()] = true;
        line(
            "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":"
            "\"rank {}\"}}}}",
            process, timed.rank.value, timed.rank.value);
      }
      const Action& action = timed.action;
      line(
          "{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{},"
          "\"tid\":{},\"args\":{{\"stage\":{},\"mb\":{}}}}}",
          to_string(action), letter(action.phase), micros(timed.start),
          micros(timed.end - timed.start), process, timed.rank.value, action.stage.value,
          action.mb.value);
    }
    if (track.mark) {
      line("{{\"name\":\"{}\",\"ph\":\"i\",\"s\":\"p\",\"ts\":{},\"pid\":{},\"tid\":0}}",
           escaped(track.mark->text), micros(track.mark->at), process);
    }
  }

  std::string take() && {
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + events_ + "\n]}\n";
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    events_ += events_.empty() ? "\n" : ",\n";
    fmt::format_to(std::back_inserter(events_), format, std::forward<Args>(args)...);
  }

  std::string events_;
};

}  // namespace

std::string chrome_trace(const std::vector<Track>& tracks) {
  Trace trace;
  for (std::size_t i = 0; i < tracks.size(); ++i) trace.add(tracks[i], i);
  return std::move(trace).take();
}

}  // namespace sluice
