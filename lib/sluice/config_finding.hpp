// Findings about a key of the configuration, from its five facts. Used by whoever checks a part of it.
#pragma once

#include <string>
#include <string_view>

#include <sluice/finding.hpp>

namespace sluice {

Finding config_error(std::string_view rule, std::string_view key, std::string expected,
                     std::string found, std::string message);

Finding config_warning(std::string_view rule, std::string_view key, std::string expected,
                       std::string found, std::string message);

}  // namespace sluice
