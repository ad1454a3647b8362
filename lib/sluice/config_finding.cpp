#include <sluice/config_finding.hpp>

#include <utility>

namespace sluice {

Finding config_error(std::string_view rule, std::string_view key, std::string expected,
                     std::string found, std::string message) {
  Finding finding;
  finding.rule = rule;
  finding.severity = Severity::error;
  finding.key = key;
  finding.expected = std::move(expected);
  finding.found = std::move(found);
  finding.message = std::move(message);
  return finding;
}

Finding config_warning(std::string_view rule, std::string_view key, std::string expected,
                       std::string found, std::string message) {
  Finding finding =
      config_error(rule, key, std::move(expected), std::move(found), std::move(message));
  finding.severity = Severity::warning;
  return finding;
}

}  // namespace sluice
