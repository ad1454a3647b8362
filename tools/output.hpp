// Where results go, and how they look: JSON, files, colour.
//
// Results go to standard output or to a file, never anything else. Colour only on a terminal whose
// user has not set NO_COLOR.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <sluice/finding.hpp>
#include <sluice/time.hpp>

namespace sluice::tools {

/// Keys in the order in which they were written.
using Json = nlohmann::ordered_json;

/// Whole numbers as such: 22, not 22.0.
Json json_of(double number);
Json json_of(Time time);
/// What does not apply is absent.
Json json_of(const Finding& finding);
Json json_of(std::span<const Finding> findings);

/// Two spaces, lists of plain values on one line.
std::string to_text(const Json& json);

/// To `file`, in place of another text or none, or to standard output when there is no file. Throws
/// UsageError when it cannot be written.
void write_result(std::string_view text, const std::optional<std::filesystem::path>& file);

/// Whether standard output is a terminal that wants colour.
bool wants_colour();

/// A picture as `draw` makes it, with backwards coloured and idle time dimmed.
std::string coloured(std::string_view picture);

}  // namespace sluice::tools
