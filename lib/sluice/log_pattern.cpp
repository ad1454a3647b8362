#include <sluice/log_pattern.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::string_view any_text = "...";

constexpr std::array<std::string_view, 8> fields{"mb",  "stage", "phase", "event",
                                                 "seq", "step",  "rank",  "t"};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

template <class Value, std::size_t N>
std::optional<Value> by_word(const std::array<std::pair<std::string_view, Value>, N>& words,
                             std::string_view word) {
  const std::string wanted = lower(word);
  for (const auto& [name, value] : words) {
    if (name == wanted) return value;
  }
  return std::nullopt;
}

std::optional<LogRecord::Event> event_by_word(std::string_view word) {
  using Event = LogRecord::Event;
  static constexpr std::array<std::pair<std::string_view, Event>, 12> words{{
      {"enter", Event::enter},
      {"start", Event::enter},
      {"started", Event::enter},
      {"begin", Event::enter},
      {"starting", Event::enter},
      {"exit", Event::exit},
      {"end", Event::exit},
      {"ended", Event::exit},
      {"done", Event::exit},
      {"stop", Event::exit},
      {"finish", Event::exit},
      {"finished", Event::exit},
  }};
  return by_word(words, word);
}

}  // namespace

std::optional<Phase> phase_by_word(std::string_view word) {
  if (word.size() == 1) return phase_of(word.front());
  static constexpr std::array<std::pair<std::string_view, Phase>, 4> words{{
      {"fwd", Phase::forward},
      {"forward", Phase::forward},
      {"bwd", Phase::backward},
      {"backward", Phase::backward},
  }};
  return by_word(words, word);
}

LogPattern::LogPattern(std::string_view text, Outside outside) : segments_(1) {
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(any_text)) {
      segments_.emplace_back();
      at += any_text.size();
      continue;
    }
    if (text[at] == '{') {
      const std::size_t close = text.find('}', at);
      if (close == std::string_view::npos) {
        throw std::invalid_argument(fmt::format("pattern '{}': a {{ without its }}", text));
      }
      add_field(text.substr(at + 1, close - at - 1));
      at = close + 1;
      continue;
    }
    const std::size_t end = std::min({text.size(), text.find('{', at), text.find(any_text, at)});
    take_words(text.substr(at, end - at));
    segments_.back().push_back({std::string(text.substr(at, end - at)), ""});
    at = end;
  }
  require_all(text, outside);
}

void LogPattern::add_field(std::string_view name) {
  if (std::find(fields.begin(), fields.end(), name) == fields.end()) {
    throw std::invalid_argument(fmt::format("pattern: {{{}}} is not known; expected one of {}",
                                            name, fmt::join(fields, ", ")));
  }
  if (std::find(fields_.begin(), fields_.end(), name) != fields_.end()) {
    throw std::invalid_argument(fmt::format("pattern: {{{}}} stands twice; write it once", name));
  }
  fields_.emplace_back(name);
  segments_.back().push_back({"", std::string(name)});
}

void LogPattern::take_words(std::string_view literal) {
  for (std::size_t at = 0; at < literal.size();) {
    std::size_t end = at;
    while (end < literal.size() && is_letter(literal[end])) ++end;
    const std::string_view word = literal.substr(at, end - at);
    if (!phase_) phase_ = phase_by_word(word);
    if (!event_) event_ = event_by_word(word);
    at = end + 1;
  }
}

void LogPattern::require_all(std::string_view text, Outside outside) const {
  const auto has = [this](std::string_view field) {
    return std::find(fields_.begin(), fields_.end(), field) != fields_.end();
  };
  std::string missing;
  if (!has("mb")) missing = "{mb}";
  const bool alone = outside == Outside::nothing;
  if (alone && !has("stage")) missing = "{stage}";
  if (!has("phase") && !phase_) missing = "{phase}, or a word like fwd or bwd";
  if (alone && !has("event") && !event_) missing = "{event}, or a word like start or end";
  if (missing.empty()) return;
  throw std::invalid_argument(fmt::format("pattern '{}': expected {} in it", text, missing));
}

bool LogPattern::match(std::string_view line, LogLine& out) const {
  std::size_t at = 0;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const bool first = i == 0;
    const bool last = i + 1 == segments_.size();
    std::optional<std::size_t> end;
    // A segment behind `...` may begin anywhere; where it first fits, the rest fits best.
    for (; at <= line.size(); ++at) {
      end = match_at(segments_[i], line, at, out);
      if (end && last && *end != line.size()) end.reset();
      if (end || first) break;
    }
    if (!end) return false;
    at = *end;
  }
  if (phase_ && std::find(fields_.begin(), fields_.end(), "phase") == fields_.end()) {
    out.record.action.phase = *phase_;
  }
  if (event_ && std::find(fields_.begin(), fields_.end(), "event") == fields_.end()) {
    out.record.event = *event_;
  }
  return true;
}

std::optional<std::size_t> LogPattern::match_at(const Segment& segment, std::string_view line,
                                                std::size_t from, LogLine& out) const {
  for (const Part& part : segment) {
    if (part.field.empty()) {
      if (!line.substr(from).starts_with(part.literal)) return std::nullopt;
      from += part.literal.size();
      continue;
    }
    const bool word = part.field == "phase" || part.field == "event";
    std::size_t end = from;
    while (end < line.size() && (word ? is_letter(line[end]) : is_digit(line[end]))) ++end;
    const std::string_view value = line.substr(from, end - from);
    if (part.field == "phase") {
      const auto phase = phase_by_word(value);
      if (!phase) return std::nullopt;
      out.record.action.phase = *phase;
    } else if (part.field == "event") {
      const auto event = event_by_word(value);
      if (!event) return std::nullopt;
      out.record.event = *event;
    } else if (!set_field(part.field, value, out)) {
      return std::nullopt;
    }
    from = end;
  }
  return from;
}

}  // namespace sluice
