#include <sluice/log_line.hpp>

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace sluice {
namespace {

enum Field : int { seq, mb, stage, phase, event, step, rank, t, unknown };

constexpr unsigned bit(Field field) { return 1U << static_cast<unsigned>(field); }
constexpr unsigned required = bit(mb) | bit(stage) | bit(phase) | bit(event);
constexpr std::array<std::string_view, 8> names{"seq",   "mb",   "stage", "phase",
                                                "event", "step", "rank",  "t"};

Field field_of(std::string_view key) {
  switch (key.size()) {
    case 1: return key[0] == 't' ? t : unknown;
    case 2: return key == "mb" ? mb : unknown;
    case 3: return key == "seq" ? seq : unknown;
    case 4: return key == "step" ? step : key == "rank" ? rank : unknown;
    case 5:
      return key == "stage" ? stage : key == "phase" ? phase : key == "event" ? event : unknown;
    default: return unknown;
  }
}

/// A whole number from 0 to `most`, and nothing else.
std::optional<std::int64_t> number_of(std::string_view text, std::int64_t most) {
  if (text.empty() || text.size() > 18) {
    std::int64_t large = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), large);
    const bool good = error == std::errc() && end == text.data() + text.size() && large >= 0;
    return good && large <= most ? std::optional(large) : std::nullopt;
  }
  std::int64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = 10 * number + (c - '0');
  }
  return number <= most ? std::optional(number) : std::nullopt;
}

/// What a field expects; only for people.
std::string expected_of(Field field) {
  switch (field) {
    case phase: return "phase to be F, B, I or W";
    case event: return "event to be enter or exit";
    case mb:
    case stage:
    case rank:
      return fmt::format("{} to be a whole number from 0 to {}",
                         names[static_cast<std::size_t>(field)],
                         std::numeric_limits<std::int32_t>::max());
    default:
      return fmt::format("{} to be a whole number of at most 64 bits",
                         names[static_cast<std::size_t>(field)]);
  }
}

/// Sets `field` of `out`; false when `value` is not one of its values.
bool set(Field field, std::string_view value, LogLine& out) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t most_id = std::numeric_limits<std::int32_t>::max();
  LogRecord& record = out.record;
  if (field == phase) {
    const auto read = value.size() == 1 ? phase_of(value.front()) : std::nullopt;
    if (read) record.action.phase = *read;
    return read.has_value();
  }
  if (field == event) {
    if (value != "enter" && value != "exit") return false;
    record.event = value == "enter" ? LogRecord::Event::enter : LogRecord::Event::exit;
    return true;
  }
  // A clock may have started before its zero.
  if (field == t && value.starts_with('-')) {
    const auto read = number_of(value.substr(1), most);
    if (read) record.t_ns = -*read;
    return read.has_value();
  }
  const bool id = field == mb || field == stage || field == rank;
  const auto read = number_of(value, id ? most_id : most);
  if (!read) return false;
  switch (field) {
    // One below the largest, so that there is always a next one.
    case seq:
      record.seq = *read;
      out.numbered = true;
      return *read < most;
    case mb: record.action.mb = MicrobatchId(*read); return *read < most_id;
    case stage: record.action.stage = StageId(*read); return *read < most_id;
    case step: record.step = *read; return true;
    case rank: record.rank = RankId(*read); return true;
    default: record.t_ns = *read; return true;
  }
}

std::optional<LineFault> missing(unsigned seen, std::size_t offset) {
  if ((seen & required) == required) return std::nullopt;
  std::string expected;
  for (const Field field : {mb, stage, phase, event}) {
    if ((seen & bit(field)) != 0) continue;
    expected += expected.empty() ? "" : ", ";
    expected += names[static_cast<std::size_t>(field)];
  }
  return LineFault{offset, fmt::format("also {}", expected)};
}

/// Sets a field that must not stand twice.
std::optional<LineFault> set_once(Field field, std::string_view value, std::size_t offset,
                                  unsigned& seen, LogLine& out) {
  if ((seen & bit(field)) != 0) {
    return LineFault{offset, fmt::format("{} only once", names[static_cast<std::size_t>(field)])};
  }
  seen |= bit(field);
  if (!set(field, value, out)) return LineFault{offset, expected_of(field)};
  return std::nullopt;
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\t'; });
}

/// Walks over one line of JSON; `at` is where it stands.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  std::size_t at() const { return at_; }
  bool done() const { return at_ == text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }

  void skip_blanks() {
    while (!done() && is_blank(text_[at_])) ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  /// What stands between the quotes, escapes as they are.
  std::optional<std::string_view> take_string() {
    if (!take('"')) return std::nullopt;
    const std::size_t from = at_;
    for (; !done(); ++at_) {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) return std::nullopt;
      if (text_[at_] == '"') return text_.substr(from, at_++ - from);
      if (text_[at_] == '\\' && ++at_ == text_.size()) return std::nullopt;
    }
    return std::nullopt;
  }
  /// A number, true, false or null, unread.
  std::string_view take_word() {
    skip_blanks();
    const std::size_t from = at_;
    while (!done() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                       text_[at_] == '-' || text_[at_] == '+' || text_[at_] == '.')) {
      ++at_;
    }
    return text_.substr(from, at_ - from);
  }
  /// Steps over any value. Brackets are only counted: what is unknown need not be right inside.
  bool skip_value() {
    int depth = 0;
    do {
      skip_blanks();
      const char c = peek();
      if (c == '"') {
        if (!take_string()) return false;
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (depth > 0 && (c == '}' || c == ']')) {
        --depth;
        ++at_;
      } else if (depth > 0 && (c == ',' || c == ':')) {
        ++at_;
      } else if (take_word().empty()) {
        return false;
      }
    } while (depth > 0);
    return true;
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// A cell of CSV: `text` has no quotes round it any more.
struct Cell {
  std::string_view text;
  std::size_t offset = 0;
  std::size_t end = 0;  // of its comma, or of the line
};

std::optional<Cell> cell_at(std::string_view line, std::size_t from) {
  while (from < line.size() && is_blank(line[from])) ++from;
  if (from < line.size() && line[from] == '"') {
    const std::size_t close = line.find('"', from + 1);
    if (close == std::string_view::npos) return std::nullopt;
    std::size_t end = close + 1;
    while (end < line.size() && is_blank(line[end])) ++end;
    if (end < line.size() && line[end] != ',') return std::nullopt;
    return Cell{line.substr(from + 1, close - from - 1), from, end};
  }
  const std::size_t end = std::min(line.find(',', from), line.size());
  std::string_view text = line.substr(from, end - from);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return Cell{text, from, end};
}

constexpr std::string_view whole_cell = "a cell without quotes inside, on one line";

}  // namespace

bool set_field(std::string_view key, std::string_view value, LogLine& out) {
  const Field field = field_of(key);
  return field != unknown && set(field, value, out);
}

std::optional<LineFault> parse_text_line(std::string_view line, LogLine& out) {
  const char* const begin = line.data();
  const char* const end = begin + line.size();
  const char* p = begin;
  unsigned seen = 0;
  const auto offset_of = [begin](const char* where) {
    return static_cast<std::size_t>(where - begin);
  };
  while (true) {
    while (p != end && is_blank(*p)) ++p;
    if (p == end) break;
    const char* const key = p;
    while (p != end && *p != '=' && !is_blank(*p)) ++p;
    if (p == end || *p != '=' || p == key) {
      return LineFault{offset_of(key),
                       "key=value fields, as in seq=0001 mb=0 stage=0 phase=F event=enter"};
    }
    const Field field = field_of({key, static_cast<std::size_t>(p - key)});
    const char* const value = ++p;
    if (field == unknown && p != end && *p == '"') {
      p = std::find(p + 1, end, '"');
      if (p != end) ++p;
    }
    while (p != end && !is_blank(*p)) ++p;
    const std::string_view text(value, static_cast<std::size_t>(p - value));
    if (field != unknown) {
      if (auto fault = set_once(field, text, offset_of(value), seen, out)) return fault;
    } else if (has_control({key, static_cast<std::size_t>(p - key)})) {
      return LineFault{offset_of(key), "text, not control characters"};
    }
  }
  return missing(seen, line.size());
}

std::optional<LineFault> parse_json_line(std::string_view line, LogLine& out) {
  JsonCursor json(line);
  unsigned seen = 0;
  if (!json.take('{')) return LineFault{json.at(), "an object, as in {\"seq\":1,\"mb\":0,...}"};
  bool first = true;
  while (!json.take('}')) {
    if (!first && !json.take(',')) return LineFault{json.at(), "a comma or the object's end"};
    first = false;
    const auto key = json.take_string();
    if (!key || !json.take(':')) return LineFault{json.at(), "a key in quotes and a colon"};
    const Field field = field_of(*key);
    json.skip_blanks();
    const std::size_t at = json.at();
    if (field == unknown) {
      if (!json.skip_value()) return LineFault{json.at(), "a value"};
      continue;
    }
    const bool quoted = json.peek() == '"';
    const auto text = quoted ? json.take_string() : std::optional(json.take_word());
    if (!text || quoted != (field == phase || field == event)) {
      return LineFault{at, expected_of(field)};
    }
    if (auto fault = set_once(field, *text, at, seen, out)) return fault;
  }
  json.skip_blanks();
  if (!json.done()) return LineFault{json.at(), "nothing behind the object"};
  return missing(seen, line.size());
}

std::optional<LineFault> CsvHeader::parse(std::string_view line) {
  fields_.clear();
  unsigned seen = 0;
  for (std::size_t from = 0; from <= line.size();) {
    const auto cell = cell_at(line, from);
    if (!cell) return LineFault{from, std::string(whole_cell)};
    const Field field = field_of(cell->text);
    if (field != unknown && (seen & bit(field)) != 0) {
      return LineFault{cell->offset, "a column only once"};
    }
    seen |= field == unknown ? 0 : bit(field);
    fields_.push_back(field);
    from = cell->end + 1;
  }
  return missing(seen, line.size());
}

std::optional<LineFault> CsvHeader::parse_row(std::string_view line, LogLine& out) const {
  unsigned seen = 0;
  std::size_t from = 0;
  for (const int column : fields_) {
    if (from > line.size()) {
      return LineFault{line.size(), fmt::format("{} cells, as in the header", fields_.size())};
    }
    const auto cell = cell_at(line, from);
    if (!cell) return LineFault{from, std::string(whole_cell)};
    from = cell->end + 1;
    const Field field = static_cast<Field>(column);
    // What is optional may be left empty.
    const bool skip = field == unknown ? !has_control(cell->text)
                                       : cell->text.empty() && (bit(field) & required) == 0;
    if (skip) continue;
    if (field == unknown) return LineFault{cell->offset, "text, not control characters"};
    if (auto fault = set_once(field, cell->text, cell->offset, seen, out)) return fault;
  }
  if (from <= line.size()) {
    return LineFault{from, fmt::format("{} cells, as in the header", fields_.size())};
  }
  return std::nullopt;
}

}  // namespace sluice
