#include "trace_log.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sluice/log.hpp>

#include "errors.hpp"

namespace sluice::tools {
namespace {

struct Span {
  Action action;
  std::int64_t start_ns = 0;
  std::optional<std::int64_t> end_ns;
};

/// Collects the spans of a trace event by event, without keeping the trace.
class TraceReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TraceReader(const TraceMap& map) : map_(&map) {}

  std::vector<Span> take() { return std::move(spans_); }
  const std::string& error() const { return error_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (in_event()) texts_[path()] = value;
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    if (keys_.size() == event_depth_) {
      texts_.clear();
      numbers_.clear();
    }
    return true;
  }
  bool key(string_t& value) override {
    keys_.back() = value;
    return true;
  }
  bool end_object() override {
    if (keys_.size() == event_depth_) end_event();
    keys_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override {
    // The events are the objects in the outermost array, or in traceEvents.
    if (keys_.empty()) event_depth_ = 1;
    if (keys_.size() == 1 && keys_.front() == "traceEvents") event_depth_ = 2;
    return true;
  }
  bool end_array() override {
    if (keys_.size() == 1 && keys_.front() == "traceEvents") event_depth_ = 0;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    error_ = fmt::format("at byte {}: expected JSON of a trace", position);
    return false;
  }

 private:
  bool in_event() const {
    return event_depth_ > 0 && keys_.size() >= event_depth_ && keys_.size() <= event_depth_ + 1;
  }
  /// `tid`, `args.stage`.
  std::string path() const {
    const std::string& last = keys_.back();
    return keys_.size() == event_depth_ ? last : keys_[keys_.size() - 2] + '.' + last;
  }
  bool number(double value) {
    if (in_event()) numbers_[path()] = value;
    return true;
  }

  std::optional<std::int64_t> ns(const char* key) const {
    const auto found = numbers_.find(key);
    if (found == numbers_.end() || !(std::abs(found->second) < 9e15)) return std::nullopt;
    return std::llround(found->second * 1000);  // traces count microseconds
  }

  std::optional<std::int64_t> stage() const {
    if (const auto found = numbers_.find(map_->stage()); found != numbers_.end()) {
      const double value = found->second;
      if (value < 0 || value > 1e6 || value != std::trunc(value)) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    const auto text = texts_.find(map_->stage());
    LogLine read;
    if (text == texts_.end() || !set_field("stage", text->second, read)) return std::nullopt;
    return read.record.action.stage.value;
  }

  void end_event() {
    const auto start = ns("ts");
    const auto of_stage = stage();
    if (!start || !of_stage) return;
    LogLine read;
    const std::string name = texts_["name"];
    const bool ours =
        std::any_of(map_->names().begin(), map_->names().end(),
                    [&](const LogPattern& pattern) { return pattern.match(name, read); });
    if (!ours) return;
    Action action = read.record.action;
    action.stage = StageId(*of_stage);
    const std::string phase = texts_["ph"];
    if (phase == "X") {
      spans_.push_back({action, *start, *start + ns("dur").value_or(0)});
    } else if (phase == "B" || phase == "b") {
      spans_.push_back({action, *start, std::nullopt});
    } else if (phase == "E" || phase == "e") {
      const auto open = std::find_if(spans_.rbegin(), spans_.rend(), [&action](const Span& span) {
        return span.action == action && !span.end_ns;
      });
      if (open != spans_.rend()) open->end_ns = start;
    }
  }

  const TraceMap* map_;
  std::size_t event_depth_ = 0;    // of objects; 0: no event can start here
  std::vector<std::string> keys_;  // of the objects that are open
  std::map<std::string, std::string> texts_;
  std::map<std::string, double> numbers_;
  std::vector<Span> spans_;
  std::string error_;
};

}  // namespace

TraceMap::TraceMap(const std::vector<std::string>& mappings) {
  for (const std::string& mapping : mappings) {
    if (mapping.starts_with("name=")) {
      std::string_view rest = std::string_view(mapping).substr(5);
      while (true) {
        const std::size_t bar = std::min(rest.find('|'), rest.size());
        try {
          names_.emplace_back(rest.substr(0, bar), LogPattern::Outside::stage_and_event);
        } catch (const std::invalid_argument& error) {
          throw UsageError("--map", error.what());
        }
        if (bar == rest.size()) break;
        rest.remove_prefix(bar + 1);
      }
    } else if (mapping.starts_with("stage=")) {
      stage_ = mapping.substr(6);
    } else {
      throw UsageError(
          "--map",
          fmt::format("'{}' is no mapping; expected name=PATTERN or stage=FIELD", mapping));
    }
  }
  if (names_.empty() || stage_.empty()) {
    throw UsageError("--map", "expected both, as in --map 'name=F{mb}|B{mb}' stage=tid");
  }
}

std::string log_of_trace(std::string_view json, const std::string& name, const TraceMap& map) {
  TraceReader reader(map);
  nlohmann::json::sax_parse(json, &reader);
  if (!reader.error().empty()) throw UsageError(name, reader.error());
  std::vector<Span> spans = reader.take();
  if (spans.empty()) {
    throw UsageError(name, "no event has such a name and a stage; see --map");
  }
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::tie(a.start_ns, a.end_ns, a.action) < std::tie(b.start_ns, b.end_ns, b.action);
  });
  // At one moment an action ends before the next starts, and starts before it ends itself.
  std::vector<std::pair<std::int64_t, std::size_t>> moments;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    moments.emplace_back(spans[i].start_ns, 2 * i);
    if (spans[i].end_ns) moments.emplace_back(*spans[i].end_ns, 2 * i + 1);
  }
  std::sort(moments.begin(), moments.end());
  std::string text;
  for (const auto& [time, i] : moments) {
    const Action& action = spans[i / 2].action;
    text +=
        fmt::format("mb={} stage={} phase={} event={} t={}\n", action.mb.value, action.stage.value,
                    letter(action.phase), i % 2 == 0 ? "enter" : "exit", time);
  }
  return text;
}

}  // namespace sluice::tools
