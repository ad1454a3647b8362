#include "output.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "errors.hpp"
#include "output_file.hpp"

namespace sluice::tools {
namespace {

/// Whatever a result may be, it is not binary.
bool is_text(std::string_view head) {
  return std::none_of(head.begin(), head.end(), [](char c) {
    const bool blank = c == '\t' || c == '\n' || c == '\r' || c == '\f';
    return static_cast<unsigned char>(c) < ' ' && !blank;
  });
}

/// The letter of a picture's cell decides its colour.
std::string_view colour_of(char letter) {
  constexpr std::string_view backward = "\033[36m", weights = "\033[35m", idle = "\033[2m";
  switch (letter) {
    case '[':
    case ']':
    case '=': return backward;
    case '(':
    case ')':
    case '~': return weights;
    case '.': return idle;
    default: return "";
  }
}

bool is_plain(const Json& list) {
  for (const Json& each : list) {
    if (each.is_structured()) return false;
  }
  return true;
}

void print(std::string& text, const Json& json, std::size_t depth) {
  const auto new_line = [&text](std::size_t at) { text.append(1, '\n').append(2 * at, ' '); };
  if (!json.is_structured() || json.empty() || (json.is_array() && is_plain(json))) {
    if (!json.is_array() || json.empty()) {
      text += json.dump(-1, ' ', false, Json::error_handler_t::replace);
      return;
    }
    char before = '[';
    for (const Json& each : json) {
      text += before;
      if (before == ',') text += ' ';
      print(text, each, depth);
      before = ',';
    }
    text += ']';
    return;
  }
  const char* separator = json.is_array() ? "[" : "{";
  for (const auto& [key, value] : json.items()) {
    text += separator;
    new_line(depth + 1);
    if (json.is_object()) text += Json(key).dump() + ": ";
    print(text, value, depth + 1);
    separator = ",";
  }
  new_line(depth);
  text += json.is_array() ? ']' : '}';
}

}  // namespace

Json json_of(double number) {
  // Beyond 2^53 a double is whole anyway, and no integer that was meant.
  if (std::trunc(number) == number && std::abs(number) < 9007199254740992.0) {
    return static_cast<std::int64_t>(number);
  }
  return number;
}

Json json_of(Time time) { return json_of(time.units()); }

Json json_of(const Finding& finding) {
  Json json;
  const auto text = [&json](const char* key, const std::string& value) {
    if (!value.empty()) json[key] = value;
  };
  json["rule"] = finding.rule;
  json["severity"] = finding.severity == Severity::error ? "error" : "warning";
  text("key", finding.key);
  if (finding.seq) json["seq"] = *finding.seq;
  if (finding.stage) json["stage"] = finding.stage->value;
  if (finding.mb) json["mb"] = finding.mb->value;
  if (finding.phase) json["phase"] = std::string(1, letter(*finding.phase));
  text("expected", finding.expected);
  text("found", finding.found);
  text("likely", finding.likely);
  json["message"] = finding.message;
  return json;
}

Json json_of(std::span<const Finding> findings) {
  Json json = Json::array();
  for (const Finding& finding : findings) json.push_back(json_of(finding));
  return json;
}

std::string to_text(const Json& json) {
  std::string text;
  print(text, json, 0);
  return text + '\n';
}

void write_result(std::string_view text, const std::optional<std::filesystem::path>& file) {
  if (file) return OutputFile(*file, "text", is_text).write(text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw UsageError("standard output", fmt::format("cannot be written: {}", std::strerror(errno)));
  }
}

bool wants_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0');
}

std::string coloured(std::string_view picture) {
  constexpr std::string_view plain = "\033[0m";
  std::string text;
  std::string_view current;
  bool in_backward = false;
  bool in_row = false;  // between the bar behind the label and the end of the line
  for (char letter : picture) {
    if (letter == '\n') in_row = in_backward = false;
    std::string_view wanted = in_row ? colour_of(letter) : "";
    if (in_row && (letter == '[' || letter == '(')) in_backward = true;
    if (in_row && in_backward && wanted.empty()) wanted = current;
    if (letter == ']' || letter == ')') in_backward = false;
    if (wanted != current) {
      text += plain;
      text += wanted;
      current = wanted;
    }
    text += letter;
    if (letter == '|') in_row = true;
  }
  if (!current.empty()) text += plain;
  return text;
}

}  // namespace sluice::tools
