#include "foreign_settings.hpp"

#include <cctype>
#include <utility>

namespace sluice::tools {
namespace {

bool in_word(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '-';
}

}  // namespace

std::string in_their_words(std::string_view text, const ForeignSettings& settings) {
  std::string result;
  while (!text.empty()) {
    // The next word, with a section in front if there is one.
    std::size_t end = 0;
    while (end < text.size() && (in_word(text[end]) || (text[end] == '.' && end > 0))) ++end;
    if (end == 0) {
      result += text.front();
      text.remove_prefix(1);
      continue;
    }
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end);
    const auto dot = word.rfind('.');
    const bool has_section = dot != std::string_view::npos;
    const auto name = settings.names.find(std::string(has_section ? word.substr(dot + 1) : word));
    const bool is_key = has_section || text.starts_with(" = ");
    if (is_key && name != settings.names.end()) {
      result += name->second;
    } else {
      result += word;
    }
  }
  return result;
}

Finding in_their_words(Finding finding, const ForeignSettings& settings) {
  finding.message = in_their_words(finding.message, settings);
  finding.expected = in_their_words(finding.expected, settings);
  const auto name = settings.names.find(finding.key);
  if (name != settings.names.end()) finding.key = name->second;
  return finding;
}

}  // namespace sluice::tools
