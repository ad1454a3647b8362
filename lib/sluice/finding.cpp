#include <sluice/finding.hpp>

#include <utility>

namespace sluice {
namespace {

std::string messages_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    if (!text.empty()) text += '\n';
    text += finding.message;
  }
  return text;
}

}  // namespace

ConfigError::ConfigError(std::vector<Finding> findings)
    : std::invalid_argument(messages_of(findings)), findings_(std::move(findings)) {}

}  // namespace sluice
